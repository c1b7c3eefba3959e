-- What Holdfast needs in PostgreSQL: the schema {schema} with a table and functions. A role
-- with the right CREATE on the database runs this once, best as one transaction; to run it
-- again changes nothing. A role that locks then creates nothing, and needs these rights:
--
--   GRANT USAGE ON SCHEMA {schema} TO role;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.locks TO role;
--   GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO role; -- unless PUBLIC has it, as by default
--
-- The table has one row per resource. Its row has everything that decisions about a
-- resource depend on, and every change locks it. holds and places are JSON in the form of
-- package model, token is the last one granted, touched the version of the row. While watched
-- is in the future, releases notify. due is for sweeps: see 7_sweep.sql. Times are in
-- microseconds since 1970.
--
-- Besides the key only due is indexed, which seldom changes, and pages are half
-- empty. So updates stay in their page and do not change the indexes.
--
-- The comment says which layout this is: everybody may read it, and a dump keeps it.
DO $do$
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true); -- see acquire
  PERFORM set_config('lock_timeout', '5s', true); -- somebody may leave an installation open
  PERFORM pg_advisory_xact_lock(hashtextextended('holdfast ' || {schema_text}, 0));
  IF to_regclass('{schema}.locks') IS NOT NULL THEN
    IF obj_description('{schema}.locks'::regclass, 'pg_class') IS DISTINCT FROM {comment} THEN
      RAISE EXCEPTION 'schema % has a table "locks" of another layout', {schema_text};
    END IF;
    RETURN;
  END IF;
  IF to_regnamespace({schema_text}) IS NULL THEN
    CREATE SCHEMA {schema};
  END IF;
  CREATE TABLE {schema}.locks (
    resource text COLLATE "C" PRIMARY KEY,
    token    bigint NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9007199254740991),
    touched  bigint NOT NULL DEFAULT 0 CHECK (touched >= 0),
    holds    jsonb  NOT NULL DEFAULT '[]',
    places   jsonb  NOT NULL DEFAULT '[]',
    watched  bigint NOT NULL DEFAULT 0,
    due      bigint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
  CREATE INDEX locks_due ON {schema}.locks (due);
  COMMENT ON TABLE {schema}.locks IS {comment};
END
$do$;
