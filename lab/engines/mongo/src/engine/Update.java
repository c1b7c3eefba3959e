package engine;

import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.exception.MongoServerError;
import java.time.Instant;
import java.util.List;

/** What an update says: operators, a new document, or a pipeline. */
final class Update {
  /** The library wants a document as an update: a pipeline travels in one, under this name. */
  private static final String PIPELINE = "$pipeline";

  private Update() {}

  static Document prepare(Object update, Instant now) {
    if (update instanceof List<?> stages) {
      return new Document(PIPELINE, stages);
    }
    Document operators = (Document) update;
    if (operators.containsKey(PIPELINE)) {
      throw new MongoServerError(9, "FailedToParse", "Unknown modifier: " + PIPELINE);
    }
    return withCurrentDate(operators, now);
  }

  /** The stages, or null where the update is no pipeline. */
  static List<?> pipeline(Document update) {
    return (List<?>) update.get(PIPELINE);
  }

  static boolean replaces(Document update) {
    return update.keySet().stream().noneMatch(key -> key.startsWith("$"));
  }

  /** Makes a $set of $currentDate, for the library reads its clock and stores more than milliseconds. */
  private static Document withCurrentDate(Document update, Instant now) {
    if (!(update.get("$currentDate") instanceof Document dates)) {
      return update;
    }
    Document out = update.clone();
    Document set = update.get("$set") instanceof Document other ? other.clone() : new Document();
    Document timestamps = new Document();
    dates.forEach(
        (field, type) -> {
          if (type instanceof Document d && "timestamp".equals(d.get("$type"))) {
            timestamps.put(field, type);
          } else {
            set.put(field, now);
          }
        });
    out.remove("$currentDate");
    if (!timestamps.isEmpty()) {
      out.put("$currentDate", timestamps);
    }
    if (!set.isEmpty()) {
      out.put("$set", set);
    }
    return out;
  }
}
