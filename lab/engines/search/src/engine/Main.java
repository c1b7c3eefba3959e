package engine;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * One node for tests. It listens on the loopback interface, writes its URL as one line to the standard output when it answers
 * everything, and lives until its standard input ends: so it outlives nobody who started it with a pipe. Then it removes its
 * folder. If it is killed the folder stays, and another node can be started on the same data; one that nobody used for an hour
 * is removed by the next node that has its folder beside it.
 *
 * <p>Arguments: its folder, and the port; 0 is a free one. A node of a cluster has three more: its name, its port for other
 * nodes, and all nodes as NAME=PORT with commas between.
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
      Node.start(home, settings(home, arguments));
      String url = "http://" + Files.readAllLines(ports).get(0);
      awaitReady(url);
      System.out.println(url);
    } catch (Throwable e) {
      e.printStackTrace();
      Home.remove(home);
      Runtime.getRuntime().halt(1);
    }
  }

  private static Map<String, String> settings(Path home, String[] arguments) {
    Map<String, String> settings = new HashMap<>();
    settings.put("path.home", home.toString());
    settings.put("cluster.name", "holdfast-test");
    settings.put("node.portsfile", "true");
    settings.put("network.host", "127.0.0.1");
    settings.put("http.port", arguments[1]);
    settings.put("node.store.allow_mmap", "false"); // needs a setting of the system
    settings.put("cluster.routing.allocation.disk.threshold_enabled", "false"); // a full disk is not tested here
    if (arguments.length == 2) {
      settings.put("node.name", "test");
      settings.put("transport.port", "0");
      settings.put("discovery.type", "single-node");
      return settings;
    }
    settings.put("node.name", arguments[2]);
    settings.put("transport.port", arguments[3]);
    List<String> names = new ArrayList<>();
    List<String> addresses = new ArrayList<>();
    for (String node : arguments[4].split(",")) {
      String[] parts = node.split("=");
      names.add(parts[0]);
      addresses.add("127.0.0.1:" + parts[1]);
    }
    settings.put("cluster.initial_master_nodes", String.join(",", names));
    settings.put("discovery.seed_hosts", String.join(",", addresses));
    return settings;
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
