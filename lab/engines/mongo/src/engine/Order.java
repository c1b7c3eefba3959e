package engine;

import de.bwaldvogel.mongo.backend.BsonType;
import de.bwaldvogel.mongo.backend.Missing;
import de.bwaldvogel.mongo.backend.ValueComparator;
import java.math.BigDecimal;

/**
 * How expressions compare values. The library takes what is missing for null, and forgets the fraction of a number that it
 * compares with a long.
 */
final class Order {
  private Order() {}

  static int compare(Object a, Object b) {
    int empty = Integer.compare(emptiness(a), emptiness(b));
    if (empty != 0 || emptiness(a) < 2) {
      return empty;
    }
    if (a instanceof Number m && b instanceof Number n && isFinite(m) && isFinite(n)) {
      return decimal(m).compareTo(decimal(n));
    }
    return ValueComparator.ascWithoutListHandling().compare(a, b);
  }

  private static int emptiness(Object value) {
    return value instanceof Missing ? 0 : value == null ? 1 : 2;
  }

  private static boolean isFinite(Number number) {
    return number instanceof Integer || number instanceof Long || number instanceof Double d && Double.isFinite(d);
  }

  private static BigDecimal decimal(Number number) {
    return number instanceof Double d ? new BigDecimal(d) : BigDecimal.valueOf(number.longValue());
  }

  /** The name of a value's type, as {@code $type} has it. */
  static String type(Object value) {
    if (value instanceof Missing) {
      return "missing";
    }
    for (BsonType type : BsonType.values()) {
      if (type.matches(value)) {
        return type.getAlias();
      }
    }
    return "unknown";
  }
}
