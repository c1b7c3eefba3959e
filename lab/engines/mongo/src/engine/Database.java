package engine;

import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.memory.MemoryDatabase;

/** A database whose collections are {@link Collection}s. */
final class Database extends MemoryDatabase {
  private final Changes changes;
  private final Clock clock;

  Database(String name, CursorRegistry cursors, Changes changes, Clock clock) {
    super(name, cursors);
    this.changes = changes;
    this.clock = clock;
  }

  @Override
  protected Collection openOrCreateCollection(String name, CollectionOptions options) {
    return new Collection(this, name, options, cursorRegistry);
  }

  Changes changes() {
    return changes;
  }

  Clock clock() {
    return clock;
  }
}
