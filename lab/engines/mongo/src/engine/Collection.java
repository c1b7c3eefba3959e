package engine;

import de.bwaldvogel.mongo.backend.ArrayFilters;
import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.QueryResult;
import de.bwaldvogel.mongo.backend.Utils;
import de.bwaldvogel.mongo.backend.memory.MemoryCollection;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.bson.ObjectId;
import de.bwaldvogel.mongo.exception.MongoServerError;
import de.bwaldvogel.mongo.oplog.Oplog;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * A collection that knows pipelines as updates and computed fields in projections, and that tells {@link Changes} whatever is
 * stored or removed, by whichever command.
 */
final class Collection extends MemoryCollection {
  private static final String ID = "_id";

  private final Database database;
  private Changes.Kind kind = Changes.Kind.OPERATORS;

  Collection(Database database, String name, CollectionOptions options, CursorRegistry cursors) {
    super(database, name, options, cursors);
    this.database = database;
  }

  // What is stored.

  @Override
  public void addDocument(Document document) {
    super.addDocument(document);
    if (watched()) {
      database.changes().inserted(this, document);
    }
  }

  @Override
  public void removeDocument(Document document) {
    super.removeDocument(document);
    if (watched()) {
      database.changes().deleted(this, document);
    }
  }

  @Override
  protected void handleUpdate(Integer position, Document before, Document after) {
    if (watched()) {
      database.changes().updated(this, before, after, kind);
    }
  }

  @Override
  public void drop() {
    super.drop();
    if (watched()) {
      database.changes().dropped(this);
    }
  }

  private boolean watched() {
    return !getCollectionName().startsWith("system.");
  }

  // Updates.

  @Override
  public Document updateDocuments(
      Document filter, Document update, ArrayFilters filters, boolean multi, boolean upsert, Oplog oplog) {
    refuseExprInUpsert(filter, upsert);
    List<?> stages = Update.pipeline(update);
    if (stages == null) {
      kind = Update.replaces(update) ? Changes.Kind.DOCUMENT : Changes.Kind.OPERATORS;
      return super.updateDocuments(filter, update, filters, multi, upsert, oplog);
    }
    Pipeline pipeline = new Pipeline(stages, database.clock().now());
    List<Document> found = find(filter, null, multi ? 0 : 1);
    int modified = 0;
    for (Document document : found) {
      if (change(document, pipeline)) {
        modified++;
      }
    }
    Document result = new Document("n", found.size()).append("nModified", modified);
    if (found.isEmpty() && upsert) {
      result.put("upserted", insert(filter, pipeline).get(ID));
    }
    return result;
  }

  @Override
  public Document findAndModify(Document query) {
    Document filter = query.get("query") instanceof Document given ? given : new Document();
    refuseExprInUpsert(filter, Utils.isTrue(query.get("upsert")));
    Document fields = query.get("fields") instanceof Document given ? given : new Document();
    Document plain = query.clone();
    if (!Projection.ofFind(fields)) {
      plain.remove("fields");
    }
    Document reply;
    Document update = (Document) query.get("update");
    if (update != null && Update.pipeline(update) != null) {
      reply = findAndModify(filter, plain, new Pipeline(Update.pipeline(update), database.clock().now()));
    } else {
      kind = update != null && Update.replaces(update) ? Changes.Kind.DOCUMENT : Changes.Kind.OPERATORS;
      reply = super.findAndModify(plain);
    }
    if (reply.get("value") instanceof Document value && !fields.isEmpty() && !plain.containsKey("fields")) {
      reply.put("value", project(Stream.of(value), fields).get(0));
    }
    return reply;
  }

  private Document findAndModify(Document filter, Document query, Pipeline pipeline) {
    boolean after = Utils.isTrue(query.get("new"));
    Document outcome = new Document("n", 1).append("updatedExisting", true);
    Document value = null;
    List<Document> found = find(filter, (Document) query.get("sort"), 1);
    if (!found.isEmpty()) {
      Document before = found.get(0).cloneDeeply();
      change(found.get(0), pipeline);
      value = after ? found.get(0) : before;
    } else if (Utils.isTrue(query.get("upsert"))) {
      Document inserted = insert(filter, pipeline);
      outcome.append("updatedExisting", false).append("upserted", inserted.get(ID));
      value = after ? inserted : null;
    } else {
      outcome.append("n", 0).append("updatedExisting", false);
    }
    Document reply = new Document("lastErrorObject", outcome).append("value", value);
    Utils.markOkay(reply);
    return reply;
  }

  private List<Document> find(Document filter, Document sort, int limit) {
    List<Document> found = new ArrayList<>();
    handleQuery(new Document("query", filter).append("orderby", sort), 0, limit).forEach(found::add);
    return found;
  }

  private boolean change(Document document, Pipeline pipeline) {
    Document after = pipeline.apply(document);
    if (after.equals(document)) {
      return false;
    }
    kind = Changes.Kind.PIPELINE;
    super.updateDocuments(
        new Document(ID, document.get(ID)), after, ArrayFilters.empty(), false, false, database.changes());
    return true;
  }

  private Document insert(Document filter, Pipeline pipeline) {
    Document computed = pipeline.apply(Pipeline.seed(filter));
    Document document = new Document(ID, computed.containsKey(ID) ? computed.get(ID) : new ObjectId());
    document.putAll(computed);
    addDocument(document);
    return document;
  }

  /** As mongod does, for it could not say what to insert. The library finds nothing wrong with it. */
  private static void refuseExprInUpsert(Document filter, boolean upsert) {
    if (upsert && filter != null && mentionsExpr(filter)) {
      throw new MongoServerError(
          224, "QueryFeatureNotAllowed", "$expr is not allowed in the query predicate for an upsert");
    }
  }

  private static boolean mentionsExpr(Object filter) {
    if (filter instanceof Document document) {
      return document.containsKey("$expr")
          || document.entrySet().stream()
              .anyMatch(field -> field.getKey().startsWith("$") && mentionsExpr(field.getValue()));
    }
    return filter instanceof List<?> list && list.stream().anyMatch(Collection::mentionsExpr);
  }

  // Projections.

  @Override
  protected QueryResult matchDocumentsFromStream(
      Document filter,
      Stream<Document> documents,
      int skip,
      int limit,
      int batch,
      Comparator<Document> order,
      Document fields) {
    if (fields == null || fields.isEmpty() || Projection.ofFind(fields)) {
      return super.matchDocumentsFromStream(filter, documents, skip, limit, batch, order, fields);
    }
    QueryResult all = super.matchDocumentsFromStream(filter, documents, skip, limit, 0, order, null);
    return createQueryResult(project(all.collectDocuments().stream(), fields), batch);
  }

  private List<Document> project(Stream<Document> documents, Document fields) {
    return documents.map(new Projection(fields, database.clock().now())::apply).toList();
  }
}
