package engine;

import de.bwaldvogel.mongo.bson.Document;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Puts the time of the command in place of {@code $$NOW}, where the library would read its clock each time. */
final class Now {
  private Now() {}

  /** Everywhere in a pipeline or an expression, but in literals and filters. */
  static <T> T put(T in, Instant now) {
    return copy(in, now, true);
  }

  /** In the {@code $expr} of a filter only: elsewhere it is text. */
  static <T> T putInExpr(T in, Instant now) {
    return copy(in, now, false);
  }

  @SuppressWarnings("unchecked") // the copy of a document is a document, and so on
  private static <T> T copy(T in, Instant now, boolean expression) {
    if (in instanceof Document document) {
      Document out = new Document();
      for (Map.Entry<String, Object> field : document.entrySet()) {
        Object value =
            switch (field.getKey()) {
              case "$literal" -> field.getValue();
              case "$match" -> copy(field.getValue(), now, false);
              case "$expr" -> copy(field.getValue(), now, true);
              default -> copy(field.getValue(), now, expression);
            };
        out.put(field.getKey(), value);
      }
      return (T) out;
    }
    if (in instanceof List<?> list) {
      List<Object> out = new ArrayList<>(list.size());
      list.forEach(value -> out.add(copy(value, now, expression)));
      return (T) out;
    }
    return expression && "$$NOW".equals(in) ? (T) now : in;
  }
}
