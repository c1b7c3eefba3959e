package engine;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;

/** The folder of a node, which the process locks for as long as it lives. */
final class Home {
  private Home() {}

  /** How long the data of a node stay that is stopped, and may be started again. */
  private static final Duration KEPT = Duration.ofHours(1);

  private static final String LOCK = "holdfast.lock";

  /** Makes it, or takes one that a process before left, and removes others that are of no use any more. */
  static Path take(Path path) throws IOException {
    Files.createDirectories(path.resolve("config"));
    Files.createDirectories(path.resolve("logs"));
    FileLock lock = lock(path);
    if (lock == null) {
      throw new IOException(path + " belongs to another node");
    }
    for (Path other : list(path.getParent())) {
      if (!other.equals(path) && isLeft(other)) {
        remove(other);
      }
    }
    return path;
  }

  /** Its data, too. A node that still runs may make files meanwhile. */
  static void remove(Path path) {
    for (int attempt = 0; attempt < 10 && Files.exists(path); attempt++) {
      try {
        Files.walkFileTree(path, REMOVER);
      } catch (IOException e) {
        // Again.
      }
    }
  }

  private static boolean isLeft(Path path) throws IOException {
    Path file = path.resolve(LOCK);
    if (!Files.exists(file) || Files.getLastModifiedTime(file).toInstant().isAfter(Instant.now().minus(KEPT))) {
      return false;
    }
    FileLock lock = lock(path);
    if (lock == null) {
      return false;
    }
    lock.channel().close();
    return true;
  }

  /** Null where somebody has it. It is released with its channel, or with this process. */
  private static FileLock lock(Path path) throws IOException {
    FileChannel channel = FileChannel.open(path.resolve(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    FileLock lock = channel.tryLock();
    if (lock == null) {
      channel.close();
    }
    return lock;
  }

  private static List<Path> list(Path path) throws IOException {
    try (Stream<Path> entries = Files.list(path)) {
      return entries.toList();
    }
  }

  private static final SimpleFileVisitor<Path> REMOVER =
      new SimpleFileVisitor<>() {
        @Override
        public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
          Files.deleteIfExists(file);
          return FileVisitResult.CONTINUE;
        }

        @Override
        public FileVisitResult visitFileFailed(Path file, IOException e) throws IOException {
          if (e instanceof NoSuchFileException) {
            return FileVisitResult.CONTINUE;
          }
          throw e;
        }

        @Override
        public FileVisitResult postVisitDirectory(Path path, IOException e) throws IOException {
          Files.deleteIfExists(path);
          return FileVisitResult.CONTINUE;
        }
      };
}
