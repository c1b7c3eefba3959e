-- watch marks rows as watched for in_for microseconds, and makes rows that are
-- missing. From then on releases (4_change.sql) and sweeps that drop holds
-- (7_sweep.sql) notify. It returns the resources whose marks last at least half as
-- long. Without in_wait it leaves out rows that another transaction has locked.
--
-- A mark is written with the row locked, so a release comes before it or sees it. A
-- mark that lasts for at least half of the time was written by a transaction that has
-- committed: each release that locks the row from now on sees it.
CREATE OR REPLACE FUNCTION {schema}.watch(in_resources text[], in_for bigint, in_wait boolean) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  complete constant boolean := {schema}.complete();
  name  text;
  until bigint;
BEGIN
  FOREACH name IN ARRAY in_resources LOOP
    SELECT l.watched INTO until FROM {schema}.locks l WHERE l.resource = name;
    IF FOUND AND NOT in_wait AND until <= {schema}.clock() + in_for / 2 THEN
      PERFORM FROM {schema}.locks l WHERE l.resource = name FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
    END IF;
    IF until IS NULL OR until <= {schema}.clock() + in_for / 2 THEN
      INSERT INTO {schema}.locks AS l (resource, watched) VALUES (name, {schema}.clock() + in_for)
        ON CONFLICT (resource) DO UPDATE SET watched = greatest(l.watched, excluded.watched)
        RETURNING l.watched INTO until;
      IF (until > {schema}.clock() + in_for / 2) IS NOT TRUE THEN
        PERFORM {schema}.unchanged(name);
      END IF;
    END IF;
    RETURN NEXT name;
  END LOOP;
END
$fn$;
