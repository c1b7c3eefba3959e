package engine;

import de.bwaldvogel.mongo.backend.Missing;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.exception.MongoServerError;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** An update written as an aggregation pipeline, or the stages of another pipeline that may stand in one. */
final class Pipeline {
  private static final Set<String> STAGES =
      Set.of("$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith");

  private final List<?> stages;
  private final Instant now;

  Pipeline(List<?> stages, Instant now) {
    this.stages = stages;
    this.now = now;
  }

  /** Reports whether the stage makes one document of one. */
  static boolean knows(Document stage) {
    return stage.size() == 1 && STAGES.containsAll(stage.keySet());
  }

  /** Returns what becomes of the document, which is left as it is. */
  Document apply(Document document) {
    Document result = document;
    for (Object each : stages) {
      Document stage = (Document) each;
      if (stage.size() != 1) {
        throw new MongoServerError(40323, "A pipeline stage specification object must contain exactly one field.");
      }
      String name = stage.keySet().iterator().next();
      result = apply(name, stage.get(name), result);
    }
    return result.cloneDeeply();
  }

  private Document apply(String name, Object what, Document document) {
    switch (name) {
      case "$set":
      case "$addFields":
        Document changed = document.clone();
        set(changed, (Document) what, new Expression(document, now));
        return changed;
      case "$unset":
        Document rest = document.clone();
        for (Object path : what instanceof List<?> paths ? paths : List.of(what)) {
          assign(rest, (String) path, Missing.getInstance());
        }
        return rest;
      case "$project":
        return new Projection((Document) what, now).apply(document);
      case "$replaceRoot":
        return root(((Document) what).get("newRoot"), document);
      case "$replaceWith":
        return root(what, document);
      default:
        throw new MongoServerError(40324, name + " is not allowed to be used within an update");
    }
  }

  private Document root(Object expression, Document document) {
    Object root = new Expression(document, now).evaluate(expression);
    if (!(root instanceof Document)) {
      throw new MongoServerError(40228, "'newRoot' expression must evaluate to an object");
    }
    return (Document) root;
  }

  /** Does what $set does. All expressions see the document as it was before. */
  static void set(Document target, Document fields, Expression expression) {
    Map<String, Object> values = new LinkedHashMap<>();
    evaluate("", fields, expression, values);
    values.forEach((path, value) -> assign(target, path, value));
  }

  /** A document without operators names fields within a field, and leaves its other fields alone. */
  private static void evaluate(String prefix, Document fields, Expression expression, Map<String, Object> values) {
    fields.forEach(
        (name, value) -> {
          if (value instanceof Document inner && inner.isEmpty()) {
            throw new MongoServerError(
                40180, "an empty object is not a valid value. Found empty object at path " + prefix + name);
          }
          if (value instanceof Document inner && !Expression.isOperator(inner)) {
            evaluate(prefix + name + ".", inner, expression, values);
          } else {
            values.put(prefix + name, expression.evaluate(value));
          }
        });
  }

  /**
   * Sets or, with Missing, removes a field; of each element where there is an array on the way. What is within the document
   * is copied as far as it changes: others may have it, too.
   */
  static void assign(Document in, String path, Object value) {
    assign(in, Arrays.asList(path.split("\\.")), value);
  }

  private static void assign(Document in, List<String> path, Object value) {
    String name = path.get(0);
    if (path.size() == 1) {
      if (value instanceof Missing) {
        in.remove(name);
      } else {
        in.put(name, value);
      }
      return;
    }
    Object inner = within(in.get(name), path.subList(1, path.size()), value);
    if (!(inner instanceof Missing)) {
      in.put(name, inner);
    }
  }

  /** Returns what a field becomes in which another one is set or removed, or Missing if nothing is to be done. */
  private static Object within(Object old, List<String> path, Object value) {
    if (old instanceof Document document) {
      Document changed = document.clone();
      assign(changed, path, value);
      return changed;
    }
    if (old instanceof List<?> list) {
      return list.stream()
          .map(
              element -> {
                Object changed = within(element, path, value);
                return changed instanceof Missing ? element : changed;
              })
          .toList();
    }
    if (value instanceof Missing) {
      return value;
    }
    Document created = new Document();
    assign(created, path, value);
    return created;
  }

  /** What an upsert starts from that finds nothing: the fields that the filter says are equal to something. */
  static Document seed(Document filter) {
    Document document = new Document();
    filter.forEach(
        (name, value) -> {
          if (name.equals("$and")) {
            ((List<?>) value).forEach(part -> document.putAll(seed((Document) part)));
          } else if (!name.startsWith("$")) {
            boolean compares = value instanceof Document operators && Expression.isOperator(operators);
            Object equal = compares ? ((Document) value).getOrMissing("$eq") : value;
            if (!(equal instanceof Missing)) {
              assign(document, name, equal);
            }
          }
        });
    return document;
  }
}
