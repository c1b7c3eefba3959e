package engine;

import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.bson.Document;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The time of the command at work, in milliseconds as BSON has it. A test may set the clock of a database of its own with
 * {@code {holdfastClock: 1, now: DATE}}; it stands still then.
 */
final class Clock {
  private final Map<String, Instant> set = new ConcurrentHashMap<>();
  private Instant now = Instant.EPOCH;

  Instant read(String database) {
    Instant own = set.get(database);
    return own != null ? own : Instant.now().truncatedTo(ChronoUnit.MILLIS);
  }

  Document set(String database, Instant time) {
    set.put(database, time);
    Document reply = new Document();
    Utils.markOkay(reply);
    return reply;
  }

  void begin(Instant time) {
    now = time;
  }

  Instant now() {
    return now;
  }
}
