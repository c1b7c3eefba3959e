package engine;

import de.bwaldvogel.mongo.backend.AbstractCursor;
import de.bwaldvogel.mongo.backend.Cursor;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.backend.aggregation.Aggregation;
import de.bwaldvogel.mongo.bson.BsonTimestamp;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.exception.CursorNotFoundException;
import de.bwaldvogel.mongo.exception.MongoServerError;
import de.bwaldvogel.mongo.oplog.Oplog;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;

/**
 * What has changed, for change streams on a collection. {@link Collection} reports every change; what the library's commands
 * report is ignored, for some of them report nothing and others too much.
 */
final class Changes implements Oplog {
  /** How an update was written, which decides what mongod calls it. */
  enum Kind {
    OPERATORS,
    DOCUMENT,
    PIPELINE
  }

  /** About how much is kept for streams that resume, see {@link #weight}. */
  private static final long KEPT = 16 << 20;

  private record Event(long number, Collection collection, String namespace, Document body, long weight) {}

  private final Object running;
  private final CursorRegistry cursors;
  private final Deque<Event> events = new ArrayDeque<>();
  private final Set<String> without = new HashSet<>();
  private long kept;
  private long last;

  Changes(Object running, CursorRegistry cursors) {
    this.running = running;
    this.cursors = cursors;
  }

  // What Collection reports.

  void inserted(Collection in, Document document) {
    add(in, event("insert", in).append("documentKey", key(document)).append("fullDocument", document.cloneDeeply()));
  }

  void deleted(Collection in, Document document) {
    add(in, event("delete", in).append("documentKey", key(document)));
  }

  void updated(Collection in, Document before, Document after, Kind kind) {
    Document set = new Document();
    List<String> removed = new ArrayList<>();
    compare("", before, after, set, removed);
    // mongod notes what differs, or the whole document where that is no longer.
    boolean whole = kind == Kind.DOCUMENT || kind == Kind.PIPELINE && weight(set) >= weight(after);
    Document event = event(whole ? "replace" : "update", in).append("documentKey", key(after));
    if (whole) {
      event.append("fullDocument", after.cloneDeeply());
    } else {
      event.append(
          "updateDescription", new Document("updatedFields", set.cloneDeeply()).append("removedFields", removed));
    }
    add(in, event);
  }

  private static Document key(Document document) {
    return new Document("_id", document.get("_id"));
  }

  /** Finds what differs. An array is one value, where mongod may look into it. */
  private static void compare(String prefix, Document before, Document after, Document set, List<String> removed) {
    before.keySet().stream().filter(name -> !after.containsKey(name)).forEach(name -> removed.add(prefix + name));
    after.forEach(
        (name, value) -> {
          Object old = before.getOrMissing(name);
          if (old instanceof Document from && value instanceof Document to) {
            compare(prefix + name + ".", from, to, set, removed);
          } else if (!Objects.equals(old, value)) {
            set.put(prefix + name, value);
          }
        });
  }

  private Document event(String type, Collection in) {
    last++;
    return new Document("_id", token(last))
        .append("operationType", type)
        .append("clusterTime", new BsonTimestamp(Instant.now(), (int) last))
        .append("ns", new Document("db", in.getDatabaseName()).append("coll", in.getCollectionName()));
  }

  private void add(Collection in, Document body) {
    Event event = new Event(last, in, in.getFullName(), body, weight(body));
    events.add(event);
    kept += event.weight();
    while (kept > KEPT) {
      kept -= events.remove().weight();
    }
    running.notifyAll();
  }

  /** About the bytes that a value takes. */
  private static long weight(Object value) {
    if (value instanceof Document document) {
      return 16 + document.entrySet().stream().mapToLong(e -> e.getKey().length() + weight(e.getValue())).sum();
    }
    if (value instanceof java.util.Collection<?> list) {
      return 16 + list.stream().mapToLong(Changes::weight).sum();
    }
    return value instanceof String text ? 16 + text.length() : 16;
  }

  void dropped(Collection collection) {
    add(collection, event("drop", collection));
    add(collection, event("invalidate", collection));
  }

  @Override
  public void handleInsert(String namespace, List<Document> documents) {}

  @Override
  public void handleUpdate(String namespace, Document filter, Document update, List<Object> ids) {}

  @Override
  public void handleDelete(String namespace, Document filter, List<Object> ids) {}

  @Override
  public void handleDropCollection(String namespace) {}

  // Streams.

  /** Ends the streams of a database and lets nobody open one, as a server that stands alone; or lets them again. */
  Document allow(String database, boolean allowed) {
    if (allowed) {
      without.remove(database);
    } else {
      without.add(database);
    }
    running.notifyAll();
    Document reply = new Document();
    Utils.markOkay(reply);
    return reply;
  }

  private boolean refuses(String namespace) {
    return without.contains(Utils.getDatabaseNameFromFullName(namespace));
  }

  private static Document token(long number) {
    return new Document("_data", String.format("%016X", number));
  }

  private long number(Document token) {
    long number = Long.parseLong((String) token.get("_data"), 16);
    if (number < last - events.size()) {
      throw new MongoServerError(286, "ChangeStreamHistoryLost", "the resume point is no longer in the history");
    }
    return number;
  }

  @Override
  public Cursor createCursor(Document options, String namespace, Aggregation rest) {
    if (refuses(namespace)) {
      throw new MongoServerError(40573, "The $changeStream stage is only supported on replica sets");
    }
    long after = last;
    BsonTimestamp from = null;
    if (options.get("startAfter") instanceof Document token) {
      after = number(token);
    } else if (options.get("resumeAfter") instanceof Document token) {
      after = number(token);
    } else if (options.get("startAtOperationTime") instanceof BsonTimestamp time) {
      after = last - events.size();
      from = time;
    }
    Stream stream = new Stream(namespace, after, from, "updateLookup".equals(options.get("fullDocument")), rest);
    cursors.add(stream);
    return stream;
  }

  /** The changes of one collection, from some change on. */
  final class Stream extends AbstractCursor {
    private final String namespace;
    private final BsonTimestamp from;
    private final boolean lookUp;
    private final Aggregation rest;
    private final Deque<Document> found = new ArrayDeque<>();
    private long seen;
    private Document token;
    private boolean over;

    private Stream(String namespace, long after, BsonTimestamp from, boolean lookUp, Aggregation rest) {
      super(cursors.generateCursorId());
      this.namespace = namespace;
      this.seen = after;
      this.token = Changes.token(after);
      this.from = from;
      this.lookUp = lookUp;
      this.rest = rest;
    }

    /** Reports whether there is something to take. */
    boolean ready() {
      if (refuses(namespace)) {
        cursors.remove(this);
        throw new CursorNotFoundException(getId());
      }
      if (seen < last - events.size()) {
        throw new MongoServerError(286, "ChangeStreamHistoryLost", "the stream has fallen behind the history");
      }
      // Usually only the newest are new.
      List<Event> news = new ArrayList<>();
      for (var each = events.descendingIterator(); each.hasNext(); ) {
        Event event = each.next();
        if (event.number() <= seen) {
          break;
        }
        news.add(0, event);
      }
      for (Event event : news) {
        boolean due = from == null || ((BsonTimestamp) event.body().get("clusterTime")).compareTo(from) >= 0;
        if (due && event.namespace().equals(namespace) && !over) {
          found.addAll(rest.runStages(java.util.stream.Stream.of(shown(event))));
          over = event.body().get("operationType").equals("invalidate");
        }
      }
      seen = last;
      return !found.isEmpty() || over;
    }

    private Document shown(Event event) {
      Document body = event.body().cloneDeeply();
      if (lookUp && body.get("operationType").equals("update")) {
        Document now = null;
        for (Document document : event.collection().handleQuery((Document) body.get("documentKey"))) {
          now = document.cloneDeeply();
        }
        body.put("fullDocument", now);
      }
      return body;
    }

    /** Where to resume after what was taken. */
    Document token() {
      return token;
    }

    @Override
    public List<Document> takeDocuments(int limit) {
      ready();
      List<Document> taken = new ArrayList<>();
      while (!found.isEmpty() && (limit <= 0 || taken.size() < limit)) {
        taken.add(found.remove());
      }
      if (found.isEmpty()) {
        token = Changes.token(seen);
      } else if (!taken.isEmpty()) {
        token = (Document) taken.get(taken.size() - 1).get("_id");
      }
      return taken;
    }

    @Override
    public boolean isEmpty() {
      return over && found.isEmpty();
    }
  }
}
