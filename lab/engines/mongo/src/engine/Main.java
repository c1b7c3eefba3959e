package engine;

import java.io.IOException;
import java.net.InetSocketAddress;

/**
 * A server of MongoDB's protocol for tests, in memory. It listens on a port of the loopback interface, writes its URL as one
 * line to the standard output, and lives until its standard input ends: so it outlives nobody who started it with a pipe.
 *
 * <p>Arguments: the port; 0, or none, is a free one.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws IOException {
    int port = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 0;
    InetSocketAddress address = Server.start(new Backend(), port);
    // The name tells tests that this is no mongod.
    System.out.println(
        "mongodb://127.0.0.1:" + address.getPort() + "/?directConnection=true&appName=holdfast-emulator");
    while (System.in.read() >= 0) {
      // Only the end matters.
    }
    Runtime.getRuntime().halt(0);
  }
}
