-- sweep drops holds that no longer block, and deletes rows that have had no hold for
-- in_idle microseconds and whose last token lies as far back: the next row of the
-- resource has a larger one. It stops after in_most changed rows; more says that
-- there are others. It skips rows that are locked or damaged. A sweep that drops
-- holds of a watched row notifies.
--
-- Column due chooses the rows. At 0 or above it is the time when a hold may be over,
-- or an earlier time. Below 0, the resource has had no hold since -due, or since a
-- later time. A function that makes a hold must maintain this. A function that ends a
-- hold need not: a sweep finds the row, once, and corrects due. So the cost of a
-- sweep depends on what was locked since the last one and on what is due, not on the
-- size of the table.
CREATE OR REPLACE FUNCTION {schema}.sweep(
  in_idle bigint, in_most int, OUT dropped bigint, OUT deleted bigint, OUT more boolean
) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
-- Even if the server has no statistics of the table yet.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $fn$
DECLARE
  complete constant boolean := {schema}.complete();
  name  text;
  r     record;
  kept  jsonb;
  gone  int;
  clock bigint := {schema}.clock();
  left_ int := in_most;
  due_  bigint;
  stored boolean;
BEGIN
  dropped := 0;
  deleted := 0;
  more := false;
  FOR name IN
    (SELECT l.resource FROM {schema}.locks l WHERE l.due BETWEEN 0 AND clock ORDER BY l.due)
    UNION ALL
    (SELECT l.resource FROM {schema}.locks l WHERE l.due BETWEEN in_idle - clock AND -1 AND l.watched <= clock ORDER BY l.due)
  LOOP
    more := left_ = 0;
    EXIT WHEN more;
    SELECT * INTO r FROM {schema}.locks l WHERE l.resource = name FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND OR NOT {schema}.sound(r.holds) OR NOT {schema}.sound_places(r.places);
    clock := {schema}.clock();
    r.places := {schema}.live_places(r.places, clock);
    SELECT coalesce(jsonb_agg(h), '[]'), coalesce(min({schema}.over(h)), {never}) INTO kept, due_
      FROM jsonb_array_elements(r.holds) h WHERE {schema}.blocks(h, clock);
    gone := jsonb_array_length(r.holds) - jsonb_array_length(kept);
    IF gone > 0 THEN
      r.touched := {schema}.version(r.touched, clock);
    END IF;
    IF kept = '[]' THEN
      due_ := -greatest(r.touched, r.token);
    END IF;
    IF r.holds = '[]' AND r.places = '[]' AND greatest(r.touched, r.token) <= clock - in_idle AND r.watched <= clock THEN
      DELETE FROM {schema}.locks l WHERE l.resource = name RETURNING true INTO stored;
      deleted := deleted + 1;
    ELSIF gone > 0 OR due_ <> r.due THEN
      UPDATE {schema}.locks l SET holds = kept, places = r.places, touched = r.touched, due = due_ WHERE l.resource = name
        RETURNING l.holds = kept AND l.due = due_ INTO stored;
    ELSE
      CONTINUE;
    END IF;
    IF stored IS NOT TRUE THEN
      PERFORM {schema}.unchanged(name);
    END IF;
    left_ := left_ - 1;
    dropped := dropped + gone;
    IF gone > 0 AND r.watched > clock AND pg_notification_queue_usage() < 0.9 THEN
      PERFORM pg_notify({channel}, name);
    END IF;
  END LOOP;
END
$fn$;
