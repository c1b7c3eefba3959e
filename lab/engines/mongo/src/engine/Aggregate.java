package engine;

import de.bwaldvogel.mongo.backend.DatabaseResolver;
import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.backend.aggregation.Aggregation;
import de.bwaldvogel.mongo.bson.Document;
import java.time.Instant;
import java.util.List;
import java.util.stream.Stream;

/** The command aggregate. Stages that {@link Pipeline} knows are left to it, the others to the library. */
final class Aggregate {
  private Aggregate() {}

  static boolean watches(Document query) {
    return query.get("pipeline") instanceof List<?> stages
        && !stages.isEmpty()
        && ((Document) stages.get(0)).containsKey("$changeStream");
  }

  static Document run(Document query, Database database, DatabaseResolver databases, Instant now) {
    String name = query.get("aggregate").toString();
    var collection = database.resolveCollection(name, false);
    Stream<Document> documents = collection == null ? Stream.empty() : collection.queryAllAsStream();
    for (Object each : (List<?>) query.get("pipeline")) {
      Document stage = (Document) each;
      if (Pipeline.knows(stage)) {
        documents = documents.map(new Pipeline(List.of(stage), now)::apply);
      } else {
        documents =
            Aggregation.fromPipeline(
                    List.of(Now.put(stage, now)), databases, database, collection, database.changes())
                .runStagesAsStream(documents);
      }
    }
    Document reply =
        new Document(
            "cursor",
            new Document("id", 0L)
                .append("ns", database.getDatabaseName() + "." + name)
                .append("firstBatch", documents.toList()));
    Utils.markOkay(reply);
    return reply;
  }
}
