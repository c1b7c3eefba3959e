-- One row per resource. All that decides about it is in its row, which every
-- change locks: nothing else is looked at. Holds are those of package model, in
-- its JSON; token is the last one granted, touched the record's version, and as
-- long as watched lies ahead, releases are told to those who wait. due is for
-- sweeps, see there. Times are in microseconds since 1970.
--
-- The one column that is indexed besides the key seldom changes, and pages are
-- half empty, so that updates stay in the page and leave the indexes alone.
DO $do$
BEGIN
  IF to_regnamespace({schema_text}) IS NULL THEN
    CREATE SCHEMA {schema};
  END IF;
END
$do$;

CREATE TABLE IF NOT EXISTS {schema}.locks (
  resource text COLLATE "C" PRIMARY KEY,
  token    bigint NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9007199254740991),
  touched  bigint NOT NULL DEFAULT 0 CHECK (touched >= 0),
  holds    jsonb  NOT NULL DEFAULT '[]',
  watched  bigint NOT NULL DEFAULT 0,
  due      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- What older layouts lack. To change a table waits for all who use it, a dump that
-- runs for hours among them, and whoever comes later waits behind: so only where it
-- is needed, and for 200 ms at most, which the shortest TTL bears.
DO $do$
DECLARE
  have name[] := ARRAY(SELECT a.attname FROM pg_attribute a
    WHERE a.attrelid = '{schema}.locks'::regclass AND a.attnum > 0 AND NOT a.attisdropped);
BEGIN
  IF NOT have @> ARRAY['watched', 'due']::name[] OR to_regclass('{schema}.locks_due') IS NULL THEN
    PERFORM set_config('lock_timeout', '200ms', true);
    ALTER TABLE {schema}.locks
      ADD COLUMN IF NOT EXISTS watched bigint NOT NULL DEFAULT 0,
      ADD COLUMN IF NOT EXISTS due bigint NOT NULL DEFAULT 0;
    CREATE INDEX IF NOT EXISTS locks_due ON {schema}.locks (due);
  END IF;
END
$do$;
