package engine;

import de.bwaldvogel.mongo.wire.MongoDatabaseHandler;
import de.bwaldvogel.mongo.wire.MongoExceptionHandler;
import de.bwaldvogel.mongo.wire.MongoWireMessageEncoder;
import de.bwaldvogel.mongo.wire.MongoWireProtocolHandler;
import de.bwaldvogel.mongo.wire.MongoWireReplyEncoder;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.ChannelHandlerAdapter;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.util.concurrent.DefaultEventExecutorGroup;
import io.netty.util.concurrent.EventExecutorGroup;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;

/**
 * Puts the library's protocol handlers on a port. The library's own MongoServer runs commands in the threads that serve all
 * connections, so that one that waits for a change would stop others; here each connection has a thread, as in mongod.
 */
final class Server {
  private Server() {}

  static InetSocketAddress start(Backend backend, int port) {
    NioEventLoopGroup io = new NioEventLoopGroup(2);
    ChannelGroup channels = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE);
    return (InetSocketAddress)
        new ServerBootstrap()
            .group(io)
            .channel(NioServerSocketChannel.class)
            .option(ChannelOption.SO_BACKLOG, 1024)
            .option(ChannelOption.SO_REUSEADDR, true)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childHandler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel channel) {
                    EventExecutorGroup own = new DefaultEventExecutorGroup(1);
                    channel.pipeline().addLast(
                        new MongoWireReplyEncoder(), new MongoWireMessageEncoder(), new MongoWireProtocolHandler());
                    channel.pipeline().addLast(
                        own, new Last(own), new MongoDatabaseHandler(backend, channels), new MongoExceptionHandler());
                  }
                })
            .bind("127.0.0.1", port)
            .syncUninterruptibly()
            .channel()
            .localAddress();
  }

  /** Ends a connection's thread. As the first of its handlers it is the last one removed. */
  private static final class Last extends ChannelHandlerAdapter {
    private final EventExecutorGroup own;

    private Last(EventExecutorGroup own) {
      this.own = own;
    }

    @Override
    public void handlerRemoved(ChannelHandlerContext context) {
      own.shutdownGracefully(0, 0, TimeUnit.SECONDS);
    }
  }
}
