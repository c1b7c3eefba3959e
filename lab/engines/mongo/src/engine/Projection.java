package engine;

import de.bwaldvogel.mongo.backend.Missing;
import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.bson.Document;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The fields that find, findAndModify or $project show: some of a document, all but some, and computed ones
 * ({@code now: "$$NOW"}), as mongod has them since 4.4.
 */
final class Projection {
  private static final Set<String> OF_FIND = Set.of("$slice", "$elemMatch", "$meta");

  /** The fields shown, each with those shown of it, or none if all of it is. */
  private static final class Tree extends TreeMap<String, Tree> {
    private static final long serialVersionUID = 1;
  }

  private final Tree shown = new Tree();
  private final Document hidden = new Document();
  private final Document computed = new Document();
  private final Instant now;

  Projection(Document fields, Instant now) {
    this.now = now;
    boolean id = true;
    for (Map.Entry<String, Object> field : flat("", fields, new Document()).entrySet()) {
      Object value = field.getValue();
      if (!(value instanceof Number || value instanceof Boolean)) {
        computed.put(field.getKey(), value);
      } else if (Utils.isTrue(value)) {
        show(field.getKey());
      } else if (field.getKey().equals("_id")) {
        id = false;
      } else {
        hidden.put(field.getKey(), Missing.getInstance());
      }
    }
    boolean chooses = !shown.isEmpty() || !computed.isEmpty();
    if (chooses && id) {
      show("_id");
    } else if (!chooses && !id) {
      hidden.put("_id", Missing.getInstance());
    }
  }

  /** Reports whether a projection has what only find has, and only the library does. */
  static boolean ofFind(Document fields) {
    return fields.entrySet().stream()
        .anyMatch(
            field ->
                field.getKey().endsWith(".$")
                    || field.getValue() instanceof Document how && how.keySet().stream().anyMatch(OF_FIND::contains));
  }

  /** Writes fields of fields with dots. */
  private static Document flat(String prefix, Document fields, Document out) {
    fields.forEach(
        (name, value) -> {
          if (value instanceof Document inner && !inner.isEmpty() && !Expression.isOperator(inner)) {
            flat(prefix + name + ".", inner, out);
          } else {
            out.put(prefix + name, value);
          }
        });
    return out;
  }

  private void show(String path) {
    Tree tree = shown;
    for (String name : path.split("\\.")) {
      tree = tree.computeIfAbsent(name, none -> new Tree());
    }
  }

  Document apply(Document document) {
    Document out;
    if (shown.isEmpty() && computed.isEmpty()) {
      out = document.cloneDeeply();
    } else {
      out = ((Document) choose(document, shown)).cloneDeeply();
    }
    hidden.forEach((path, missing) -> Pipeline.assign(out, path, missing));
    if (!computed.isEmpty()) {
      Pipeline.set(out, computed, new Expression(document, now));
    }
    return out;
  }

  /** Returns what is shown of a value of which some fields are: nothing if it has no fields. */
  private static Object choose(Object value, Tree fields) {
    if (value instanceof List<?> list) {
      return list.stream().map(each -> choose(each, fields)).filter(each -> !(each instanceof Missing)).toList();
    }
    if (!(value instanceof Document document)) {
      return Missing.getInstance();
    }
    Document out = new Document();
    document.forEach(
        (name, inner) -> {
          Tree of = fields.get(name);
          if (of != null) {
            Object chosen = of.isEmpty() ? inner : choose(inner, of);
            if (!(chosen instanceof Missing)) {
              out.put(name, chosen);
            }
          }
        });
    return out;
  }
}
