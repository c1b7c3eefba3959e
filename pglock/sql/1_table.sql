-- One row per resource. All that decides about it is in its row, which every
-- change locks: nothing else is looked at. Holds are those of package model, in
-- its JSON; token is the last one granted, touched the record's version, and as
-- long as watched lies ahead, releases are told to those who wait. Times are in
-- microseconds since 1970.
--
-- No column that changes is indexed, and pages are half empty, so that updates
-- stay in the page and leave the index alone.
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
  holds    jsonb  NOT NULL DEFAULT '[]'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

ALTER TABLE {schema}.locks ADD COLUMN IF NOT EXISTS watched bigint NOT NULL DEFAULT 0;
