package engine;

import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.Cursor;
import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.oplog.Oplog;
import io.netty.channel.Channel;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Runs commands one at a time. What the library does otherwise than mongod 4.4, and tests of locks need, is mended here and
 * in {@link Collection}.
 */
final class Backend extends MemoryBackend {
  /** How long a getMore on a change stream waits that does not say how long, as in mongod. */
  private static final long AWAIT_MILLIS = 1000;

  /** Held while a command runs. What waits for a change waits on it. */
  private final Object running = new Object();

  private final Clock clock = new Clock();
  private final Changes changes = new Changes(running, getCursorRegistry());
  private final Failures failures = new Failures();

  Backend() {
    version(
        new MongoVersion() {
          @Override
          public List<Integer> getVersionArray() {
            return List.of(4, 4, 0);
          }

          @Override
          public int getWireVersion() {
            return 9;
          }
        });
    enableOplog();
  }

  @Override
  protected Oplog createOplog() {
    return changes;
  }

  @Override
  public Database openOrCreateDatabase(String name) {
    return new Database(name, getCursorRegistry(), changes, clock);
  }

  @Override
  public Document handleCommand(Channel channel, String database, String command, Document query) {
    // As in mongod: read once, before the command waits for anything.
    Instant now = clock.read(database);
    synchronized (running) {
      clock.begin(now);
      Document reply = failures.run(database, command, query, asked -> run(channel, database, command, asked));
      // A reply may hold stored documents, which the next command changes while this one is being sent.
      return reply == null ? null : reply.cloneDeeply();
    }
  }

  private Document run(Channel channel, String database, String command, Document query) {
    switch (command) {
      case "hello":
        return super.handleCommand(channel, database, "ismaster", query).append("isWritablePrimary", true);
      case "holdfastClock":
        return clock.set(database, (Instant) query.get("now"));
      case "holdfastFail":
        return failures.set(database, query);
      case "holdfastChangeStreams":
        return changes.allow(database, Utils.isTrue(query.get("on")));
      case "update":
        return update(channel, database, query);
      case "aggregate":
        if (!Aggregate.watches(query)) {
          return Aggregate.run(query, (Database) resolveDatabase(database), this::resolveDatabase, clock.now());
        }
        return withResumeToken(super.handleCommand(channel, database, command, query));
      case "findAndModify":
        query.computeIfPresent("update", (key, update) -> Update.prepare(update, clock.now()));
        query.computeIfPresent("query", (key, filter) -> Now.putInExpr(filter, clock.now()));
        break;
      case "find":
        query.computeIfPresent("filter", (key, filter) -> Now.putInExpr(filter, clock.now()));
        break;
      case "delete":
        query.computeIfPresent("deletes", (key, deletes) -> Now.putInExpr(deletes, clock.now()));
        break;
      case "killCursors":
        running.notifyAll();
        break;
      default:
        break;
    }
    return super.handleCommand(channel, database, command, query);
  }

  /** Runs the updates of a command one by one: the library runs on after an error, also where it must not. */
  private Document update(Channel channel, String database, Document query) {
    int matched = 0;
    int modified = 0;
    List<Document> upserted = new ArrayList<>();
    List<Document> errors = new ArrayList<>();
    int index = 0;
    for (Object each : (List<?>) query.get("updates")) {
      Document update = ((Document) each).clone();
      update.put("u", Update.prepare(update.get("u"), clock.now()));
      update.put("q", Now.putInExpr(update.get("q"), clock.now()));
      Document one = query.clone();
      one.put("updates", List.of(update));
      Document reply = super.handleCommand(channel, database, "update", one);
      matched += (Integer) reply.get("n");
      modified += (Integer) reply.get("nModified");
      collect(reply, "upserted", index, upserted);
      collect(reply, "writeErrors", index, errors);
      if (!errors.isEmpty() && Utils.isTrue(query.getOrDefault("ordered", true))) {
        break;
      }
      index++;
    }
    Document reply = new Document("n", matched).append("nModified", modified);
    if (!upserted.isEmpty()) {
      reply.put("upserted", upserted);
    }
    if (!errors.isEmpty()) {
      reply.put("writeErrors", errors);
    }
    Utils.markOkay(reply);
    return reply;
  }

  private static void collect(Document reply, String key, int index, List<Document> all) {
    if (reply.get(key) instanceof java.util.Collection<?> some) {
      some.forEach(one -> all.add(((Document) one).clone().append("index", index)));
    }
  }

  /** Lets a getMore on a change stream wait for a change, which the library does not. */
  @Override
  protected Document handleGetMore(String database, String command, Document query) {
    long id = ((Number) query.get(command)).longValue();
    long millis = query.get("maxTimeMS") instanceof Number n ? n.longValue() : AWAIT_MILLIS;
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    // The cursor is looked up again each time, for it may have been killed meanwhile.
    while (getCursorRegistry().getCursor(id) instanceof Changes.Stream stream && !stream.ready()) {
      long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
      if (left <= 0) {
        break;
      }
      try {
        running.wait(left);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        break;
      }
    }
    Cursor cursor = getCursorRegistry().getCursor(id);
    Document reply = super.handleGetMore(database, command, query);
    if (cursor instanceof Changes.Stream stream) {
      ((Document) reply.get("cursor")).put("postBatchResumeToken", stream.token());
    }
    return reply;
  }

  private Document withResumeToken(Document reply) {
    Document cursor = (Document) reply.get("cursor");
    long id = ((Number) cursor.get("id")).longValue();
    if (id != 0 && getCursorRegistry().getCursor(id) instanceof Changes.Stream stream) {
      cursor.put("postBatchResumeToken", stream.token());
    }
    return reply;
  }
}
