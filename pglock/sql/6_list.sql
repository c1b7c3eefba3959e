-- list returns the resources that have holds or places, in order, with the time: one of them,
-- or at most in_rows after in_after. in_lock_id chooses resources on which it may
-- have a hold, or for which it may wait; '' chooses all.
CREATE OR REPLACE FUNCTION {schema}.list(in_resource text, in_lock_id text, in_after text, in_rows int)
RETURNS TABLE (resource text, clock bigint, holds jsonb, places jsonb)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  complete constant boolean := {schema}.complete();
BEGIN
  IF in_resource <> '' THEN
    RETURN QUERY SELECT l.resource, {schema}.clock(), l.holds, l.places FROM {schema}.locks l
      WHERE l.resource = in_resource AND (l.holds <> '[]' OR l.places <> '[]');
    RETURN;
  END IF;
  RETURN QUERY SELECT l.resource, {schema}.clock(), l.holds, l.places FROM {schema}.locks l
    WHERE l.resource > in_after AND (l.holds <> '[]' OR l.places <> '[]')
      AND (in_lock_id = '' OR l.holds @> jsonb_build_array(jsonb_build_object('lockId', in_lock_id))
        OR l.places @> jsonb_build_array(jsonb_build_object('lockId', in_lock_id)))
    ORDER BY l.resource LIMIT in_rows;
END
$fn$;
