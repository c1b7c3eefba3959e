package engine;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;

/**
 * One node for tests. It listens on the loopback interface, writes its URL as one line to the standard output when it answers
 * everything, and lives until its standard input ends: so it outlives nobody who started it with a pipe. Then it removes its
 * folder. If it is killed the folder stays, and another node can be started on the same data; one that nobody used for an hour
 * is removed by the next node that has its folder beside it.
 *
 * <p>Arguments: its folder, and the port; 0 is a free one.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    Path home = Home.take(Path.of(arguments[0]).toAbsolutePath());
    try {
      // All threads of a node are daemons: this one keeps the process.
      new Thread(() -> endWithInput(home), "input").start();
      Path ports = home.resolve("logs").resolve("http.ports");
      Files.deleteIfExists(ports); // of the node before
      Node.start(home, settings(home, arguments[1]));
      String url = "http://" + Files.readAllLines(ports).get(0);
      awaitReady(url);
      System.out.println(url);
    } catch (Throwable e) {
      e.printStackTrace();
      Home.remove(home);
      Runtime.getRuntime().halt(1);
    }
  }

  private static Map<String, String> settings(Path home, String port) {
    return Map.ofEntries(
        Map.entry("path.home", home.toString()),
        Map.entry("cluster.name", "holdfast-test"),
        Map.entry("node.name", "test"),
        Map.entry("node.portsfile", "true"),
        Map.entry("network.host", "127.0.0.1"),
        Map.entry("http.port", port),
        Map.entry("transport.port", "0"),
        Map.entry("discovery.type", "single-node"),
        Map.entry("node.store.allow_mmap", "false"), // needs a setting of the system
        Map.entry("cluster.routing.allocation.disk.threshold_enabled", "false")); // a full disk is not tested here
  }

  /** Returns when all shards that there are can be read and written; after a restart that takes a while. */
  private static void awaitReady(String url) throws Exception {
    HttpClient client = HttpClient.newHttpClient();
    HttpRequest health =
        HttpRequest.newBuilder(URI.create(url + "/_cluster/health?wait_for_status=yellow&timeout=5s"))
            .timeout(Duration.ofSeconds(10))
            .build();
    for (int status = 0; status != 200; ) {
      try {
        status = client.send(health, HttpResponse.BodyHandlers.discarding()).statusCode();
      } catch (IOException e) {
        // Whoever started it ends the waiting.
      }
      if (status != 200) {
        Thread.sleep(20);
      }
    }
  }

  private static void endWithInput(Path home) {
    try {
      while (System.in.read() >= 0) {
        // Only the end matters.
      }
    } catch (IOException e) {
      // That is an end, too.
    }
    Home.remove(home);
    Runtime.getRuntime().halt(0);
  }
}
