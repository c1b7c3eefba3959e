package engine;

import de.bwaldvogel.mongo.backend.Missing;
import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.exception.MongoServerError;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * Evaluates expressions over one document. The library's evaluator takes stored text that begins with a dollar for an
 * expression, wherever it passes on a value, and misses some operators. Here each expression is evaluated once; operators that
 * only compute something of their arguments are left to the library.
 */
final class Expression {
  private static final Object NONE = Missing.getInstance();

  private final Document root;
  private final Instant now;
  private final Variable variables; // the innermost first

  private record Variable(String name, Object value, Variable outer) {}

  Expression(Document root, Instant now) {
    this(root, now, null);
  }

  private Expression(Document root, Instant now, Variable variables) {
    this.root = root;
    this.now = now;
    this.variables = variables;
  }

  private Expression with(String name, Object value) {
    return new Expression(root, now, new Variable(name, value, variables));
  }

  static boolean isOperator(Document document) {
    for (String key : document.keySet()) {
      if (key.startsWith("$")) {
        return true;
      }
    }
    return false;
  }

  /** Returns the value; Missing if there is none. */
  Object evaluate(Object expression) {
    if (expression instanceof String text && text.startsWith("$$")) {
      return variable(text.substring(2));
    }
    if (expression instanceof String text && text.startsWith("$")) {
      return path(root, text.substring(1));
    }
    if (expression instanceof List<?> list) {
      List<Object> values = new ArrayList<>();
      list.forEach(element -> values.add(orNull(evaluate(element))));
      return values;
    }
    if (!(expression instanceof Document document)) {
      return expression;
    }
    if (!isOperator(document)) {
      return fields(document, this::evaluate);
    }
    if (document.size() != 1) {
      throw new MongoServerError(15983, "an object representing an expression must have exactly one field");
    }
    String operator = document.keySet().iterator().next();
    return operate(operator, document.get(operator));
  }

  private static Document fields(Document from, Function<Object, Object> value) {
    Document out = new Document();
    from.forEach(
        (name, expression) -> {
          Object result = value.apply(expression);
          if (!(result instanceof Missing)) {
            out.put(name, result);
          }
        });
    return out;
  }

  private Object variable(String name) {
    int dot = name.indexOf('.');
    String variable = dot < 0 ? name : name.substring(0, dot);
    Object value = valueOf(variable);
    return dot < 0 ? value : path(value, name.substring(dot + 1));
  }

  private Object valueOf(String variable) {
    for (Variable each = variables; each != null; each = each.outer()) {
      if (each.name().equals(variable)) {
        return each.value();
      }
    }
    return switch (variable) {
      case "ROOT", "CURRENT" -> root;
      case "NOW" -> now;
      case "REMOVE" -> NONE;
      default -> throw new MongoServerError(17276, "Use of undefined variable: " + variable);
    };
  }

  /** Follows a path of fields; an array on the way gives the array of what its elements have. */
  private static Object path(Object value, String path) {
    if (value instanceof List<?> list) {
      List<Object> values = new ArrayList<>();
      for (Object element : list) {
        Object inner = path(element, path);
        if (!(inner instanceof Missing)) {
          values.add(inner);
        }
      }
      return values;
    }
    if (!(value instanceof Document document)) {
      return NONE;
    }
    int dot = path.indexOf('.');
    return dot < 0
        ? document.getOrMissing(path)
        : path(document.getOrMissing(path.substring(0, dot)), path.substring(dot + 1));
  }

  private Object operate(String operator, Object argument) {
    switch (operator) {
      case "$literal":
        return argument;
      case "$cond":
        Document parts = argument instanceof Document named ? named : named(arguments(argument), "if", "then", "else");
        return evaluate(parts.get(Utils.isTrue(evaluate(parts.get("if"))) ? "then" : "else"));
      case "$switch":
        return choose((Document) argument);
      case "$ifNull":
        return firstOf(arguments(argument));
      case "$and":
        return arguments(argument).stream().allMatch(each -> Utils.isTrue(evaluate(each)));
      case "$or":
        return arguments(argument).stream().anyMatch(each -> Utils.isTrue(evaluate(each)));
      case "$let":
        return let((Document) argument);
      case "$map":
        return map((Document) argument);
      case "$filter":
        return filter((Document) argument);
      case "$reduce":
        return reduce((Document) argument);
      case "$mergeObjects":
        return merge(argument);
      case "$in":
        return in(values(argument));
      case "$first":
        return element(argument, 0);
      case "$last":
        return element(argument, -1);
      case "$arrayElemAt":
        return elementAt((List<?>) argument);
      case "$indexOfArray":
        return indexOf(values(argument));
      case "$min":
        return extreme(argument, -1);
      case "$max":
        return extreme(argument, 1);
      case "$type":
        return Order.type(evaluate(single(argument)));
      case "$isNumber":
        return evaluate(single(argument)) instanceof Number;
      case "$cmp":
        return compare(argument);
      case "$eq":
        return compare(argument) == 0;
      case "$ne":
        return compare(argument) != 0;
      case "$lt":
        return compare(argument) < 0;
      case "$lte":
        return compare(argument) <= 0;
      case "$gt":
        return compare(argument) > 0;
      case "$gte":
        return compare(argument) >= 0;
      case "$arrayToObject":
        return object(evaluate(single(argument)));
      default:
        return library(operator, argument);
    }
  }

  private static List<?> arguments(Object argument) {
    return argument instanceof List<?> list ? list : List.of(argument);
  }

  private static Object single(Object argument) {
    return argument instanceof List<?> list && list.size() == 1 ? list.get(0) : argument;
  }

  private List<Object> values(Object argument) {
    List<Object> values = new ArrayList<>();
    arguments(argument).forEach(each -> values.add(evaluate(each)));
    return values;
  }

  private static Object orNull(Object value) {
    return value instanceof Missing ? null : value;
  }

  private static boolean isNull(Object value) {
    return Missing.isNullOrMissing(value);
  }

  private static Document named(List<?> values, String... names) {
    if (values.size() != names.length) {
      throw new MongoServerError(16020, "wrong number of arguments: want " + names.length + ", got " + values.size());
    }
    Document document = new Document();
    for (int i = 0; i < names.length; i++) {
      document.put(names[i], values.get(i));
    }
    return document;
  }

  private Object choose(Document argument) {
    for (Object each : (List<?>) argument.get("branches")) {
      Document branch = (Document) each;
      if (Utils.isTrue(evaluate(branch.get("case")))) {
        return evaluate(branch.get("then"));
      }
    }
    if (!argument.containsKey("default")) {
      throw new MongoServerError(40066, "$switch could not find a matching branch for an input, and no default was given");
    }
    return evaluate(argument.get("default"));
  }

  private Object firstOf(List<?> expressions) {
    Object value = NONE;
    for (Object each : expressions) {
      value = evaluate(each);
      if (!isNull(value)) {
        break;
      }
    }
    return value;
  }

  private Object let(Document argument) {
    Expression inner = this;
    for (Map.Entry<String, Object> each : ((Document) argument.get("vars")).entrySet()) {
      inner = inner.with(each.getKey(), evaluate(each.getValue()));
    }
    return inner.evaluate(argument.get("in"));
  }

  /** The input of an operator over an array, null where there is none. */
  private List<?> input(Document argument) {
    Object input = evaluate(argument.get("input"));
    if (isNull(input)) {
      return null;
    }
    if (input instanceof java.util.Collection<?> all) {
      return new ArrayList<>(all);
    }
    throw new MongoServerError(28651, "input must be an array not " + Utils.describeType(input));
  }

  private Object map(Document argument) {
    List<?> input = input(argument);
    if (input == null) {
      return null;
    }
    String as = (String) argument.getOrDefault("as", "this");
    List<Object> out = new ArrayList<>();
    input.forEach(each -> out.add(orNull(with(as, each).evaluate(argument.get("in")))));
    return out;
  }

  private Object filter(Document argument) {
    List<?> input = input(argument);
    if (input == null) {
      return null;
    }
    String as = (String) argument.getOrDefault("as", "this");
    List<Object> out = new ArrayList<>();
    for (Object each : input) {
      if (Utils.isTrue(with(as, each).evaluate(argument.get("cond")))) {
        out.add(each);
      }
    }
    return out;
  }

  private Object reduce(Document argument) {
    List<?> input = input(argument);
    if (input == null) {
      return null;
    }
    Object value = evaluate(argument.get("initialValue"));
    for (Object each : input) {
      value = with("this", each).with("value", value).evaluate(argument.get("in"));
    }
    return value;
  }

  private Document merge(Object argument) {
    List<?> values = values(argument);
    if (values.size() == 1 && values.get(0) instanceof List<?> list) {
      values = list;
    }
    Document out = new Document();
    for (Object value : values) {
      if (value instanceof Document document) {
        out.putAll(document);
      } else if (!isNull(value)) {
        throw new MongoServerError(40400, "$mergeObjects requires object inputs, but got " + Utils.describeType(value));
      }
    }
    return out;
  }

  private int compare(Object argument) {
    List<?> sides = arguments(argument);
    if (sides.size() != 2) {
      throw new MongoServerError(16020, "wrong number of arguments: want 2, got " + sides.size());
    }
    return Order.compare(evaluate(sides.get(0)), evaluate(sides.get(1)));
  }

  private static Object in(List<Object> values) {
    Document parts = named(values, "value", "array");
    if (!(parts.get("array") instanceof java.util.Collection<?> array)) {
      throw new MongoServerError(40081, "$in requires an array as a second argument");
    }
    Object value = parts.get("value");
    return array.stream().anyMatch(each -> Order.compare(each, value) == 0);
  }

  private Object element(Object argument, int index) {
    Object value = evaluate(single(argument));
    if (isNull(value)) {
      return null;
    }
    if (!(value instanceof List<?> list)) {
      throw new MongoServerError(28689, "the argument must be an array, but is " + Utils.describeType(value));
    }
    return list.isEmpty() ? NONE : list.get(index < 0 ? list.size() + index : index);
  }

  private Object elementAt(List<?> arguments) {
    Document parts = named(arguments, "array", "index");
    Object array = evaluate(parts.get("array"));
    Object index = evaluate(parts.get("index"));
    if (isNull(array) || isNull(index)) {
      return null;
    }
    if (!(array instanceof List<?> list)) {
      throw new MongoServerError(28689, "the argument must be an array, but is " + Utils.describeType(array));
    }
    int at = ((Number) index).intValue();
    at = at < 0 ? list.size() + at : at;
    return at < 0 || at >= list.size() ? NONE : list.get(at);
  }

  private static Object indexOf(List<Object> values) {
    Document parts = named(values, "array", "value");
    if (isNull(parts.get("array"))) {
      return null;
    }
    if (!(parts.get("array") instanceof List<?> list)) {
      throw new MongoServerError(40090, "$indexOfArray requires an array as a first argument");
    }
    for (int i = 0; i < list.size(); i++) {
      if (Order.compare(list.get(i), parts.get("value")) == 0) {
        return i;
      }
    }
    return -1;
  }

  /** The least or the greatest of several values or of an array; null does not count. */
  private Object extreme(Object argument, int sign) {
    List<?> values = values(argument);
    if (values.size() == 1 && values.get(0) instanceof List<?> list) {
      values = list;
    }
    Object extreme = null;
    for (Object each : values) {
      if (!isNull(each) && (extreme == null || Order.compare(each, extreme) * sign > 0)) {
        extreme = each;
      }
    }
    return extreme;
  }

  private static Object object(Object pairs) {
    if (isNull(pairs)) {
      return null;
    }
    Document out = new Document();
    for (Object each : (List<?>) pairs) {
      Document pair = each instanceof List<?> list ? named(list, "k", "v") : (Document) each;
      out.put((String) pair.get("k"), pair.get("v"));
    }
    return out;
  }

  /** Lets the library compute an operator of values that it need not evaluate. */
  private Object library(String operator, Object argument) {
    Object literal;
    if (argument instanceof Document document && !isOperator(document)) {
      literal = fields(document, each -> literal(evaluate(each)));
    } else {
      literal = values(argument).stream().map(Expression::literal).toList();
    }
    return de.bwaldvogel.mongo.backend.aggregation.Expression.evaluateDocument(
        new Document(operator, literal), new Document());
  }

  private static Object literal(Object value) {
    return value instanceof String || value instanceof Document || value instanceof java.util.Collection<?>
        ? new Document("$literal", value)
        : value;
  }
}
