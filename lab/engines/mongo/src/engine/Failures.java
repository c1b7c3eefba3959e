package engine;

import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.bson.Document;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * Commands that fail because a test wants it, much as mongod's fail point failCommand: {@code {holdfastFail: 1, command: NAME,
 * code: N, times: N}} in a database of its own. With {@code items: {INDEX: CODE, ...}} these updates of an update command fail
 * and the others are done; with {@code written: true} the command is done and fails to reach a majority; with {@code labels}
 * the error has these.
 */
final class Failures {
  private final Map<String, Document> wanted = new HashMap<>();

  Document set(String database, Document failure) {
    wanted.put(database + "." + failure.get("command"), failure.clone());
    return ok();
  }

  /** Runs the command, or lets it fail. */
  Document run(String database, String command, Document query, Function<Document, Document> run) {
    Document failure = wanted.get(database + "." + command);
    int times = failure == null ? 0 : ((Number) failure.get("times")).intValue();
    if (times <= 0) {
      return run.apply(query);
    }
    failure.put("times", times - 1);
    if (failure.get("items") instanceof Document items) {
      return withoutItems(items, query, run);
    }
    if (Utils.isTrue(failure.get("written"))) {
      Document reply = run.apply(query);
      reply.put("writeConcernError", error(failure));
      return reply;
    }
    Document reply = new Document("ok", 0.0);
    reply.putAll(error(failure));
    if (failure.get("labels") != null) {
      reply.put("errorLabels", failure.get("labels"));
    }
    return reply;
  }

  private static Document error(Document failure) {
    Object code = failure.get("code");
    String name = code.equals(18) ? "AuthenticationFailed" : "Wanted";
    return new Document("code", code).append("codeName", name).append("errmsg", "a test wants it to fail");
  }

  /** Leaves the updates out that are to fail. What is left has other indexes then, which the reply must not show. */
  private static Document withoutItems(Document items, Document query, Function<Document, Document> run) {
    List<Object> rest = new ArrayList<>();
    List<Integer> indexes = new ArrayList<>();
    List<Document> errors = new ArrayList<>();
    int index = 0;
    for (Iterator<?> all = ((List<?>) query.get("updates")).iterator(); all.hasNext(); index++) {
      Object update = all.next();
      Object code = items.get(String.valueOf(index));
      if (code != null) {
        errors.add(new Document("index", index).append("code", code).append("errmsg", "a test wants it to fail"));
      } else {
        rest.add(update);
        indexes.add(index);
      }
    }
    Document others = query.clone();
    others.put("updates", rest);
    Document reply = rest.isEmpty() ? ok().append("n", 0).append("nModified", 0) : run.apply(others);
    for (String key : List.of("writeErrors", "upserted")) {
      if (reply.get(key) instanceof List<?> some) {
        some.forEach(one -> ((Document) one).put("index", indexes.get((Integer) ((Document) one).get("index"))));
      }
    }
    if (reply.get("writeErrors") instanceof List<?> more) {
      more.forEach(one -> errors.add((Document) one));
    }
    if (!errors.isEmpty()) {
      reply.put("writeErrors", errors);
    }
    return reply;
  }

  private static Document ok() {
    Document reply = new Document();
    Utils.markOkay(reply);
    return reply;
  }
}
