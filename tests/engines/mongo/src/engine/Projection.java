package engine;

import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.bson.Document;
import java.time.Instant;
import java.util.Set;
import java.util.function.BiFunction;

/** The fields of a find or findAndModify, some of them computed ({@code now: "$$NOW"}), as mongod has them since 4.4. */
final class Projection {
  private static final Set<String> STORED = Set.of("$slice", "$elemMatch", "$meta");

  private final Document stored = new Document();
  private final Document computed = new Document();
  private final Instant now;
  private final boolean hidesStored; // computed fields alone hide the others

  Projection(Document fields, Instant now) {
    this.now = now;
    fields.forEach((name, value) -> (computes(value) ? computed : stored).put(name, value));
    hidesStored = !computed.isEmpty() && stored.keySet().stream().allMatch("_id"::equals);
  }

  private static boolean computes(Object value) {
    if (value instanceof Document document) {
      return document.keySet().stream().noneMatch(STORED::contains);
    }
    return !(value instanceof Number || value instanceof Boolean);
  }

  Document apply(Document document, BiFunction<Document, Document, Document> projectStored) {
    Document out = new Document();
    if (!hidesStored) {
      out = projectStored.apply(document, stored).cloneDeeply();
    } else if (Utils.isTrue(stored.getOrDefault("_id", true))) {
      out.put("_id", document.get("_id"));
    }
    if (!computed.isEmpty()) {
      Pipeline.set(out, computed, new Expression(document, now));
    }
    return out;
  }
}
