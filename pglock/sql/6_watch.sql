-- watch marks rows as watched, and makes those that are not there: from then on
-- releases are told. The mark takes the row's lock, so that a release was either
-- before it, or sees it. It returns for how many microseconds rows are marked yet;
-- without in_wait those are missing that another transaction has locked.
--
-- Where the mark is not half over, it was made by a transaction that has
-- committed: each release that locks the row from now on sees it.
CREATE OR REPLACE FUNCTION {schema}.watch(in_resources text[], in_for bigint, in_wait boolean)
RETURNS TABLE (resource text, remains bigint)
LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  until bigint;
  clock bigint;
BEGIN
  IF NOT {schema}.whole() THEN
    PERFORM {schema}.refuse();
  END IF;
  PERFORM set_config('lock_timeout', '500', true);
  FOR resource IN SELECT r FROM unnest(in_resources) AS r ORDER BY r COLLATE "C" LOOP
    FOR try IN 1 .. 10 LOOP
      SELECT l.watched INTO until FROM {schema}.locks l WHERE l.resource = watch.resource;
      clock := {schema}.clock();
      remains := until - clock;
      EXIT WHEN remains > in_for / 2;
      IF NOT FOUND THEN
        INSERT INTO {schema}.locks (resource, due) VALUES (watch.resource, -clock) ON CONFLICT DO NOTHING;
      END IF;
      IF in_wait THEN
        PERFORM FROM {schema}.locks l WHERE l.resource = watch.resource FOR UPDATE;
      ELSE
        PERFORM FROM {schema}.locks l WHERE l.resource = watch.resource FOR UPDATE SKIP LOCKED;
      END IF;
      remains := NULL;
      IF FOUND THEN
        clock := {schema}.clock();
        UPDATE {schema}.locks l SET watched = clock + in_for WHERE l.resource = watch.resource;
        IF NOT FOUND THEN
          PERFORM {schema}.unchanged(watch.resource);
        END IF;
        remains := in_for;
        EXIT;
      END IF;
      EXIT WHEN NOT in_wait;
    END LOOP;
    IF remains IS NOT NULL THEN
      RETURN NEXT;
    END IF;
  END LOOP;
END
$fn$;
