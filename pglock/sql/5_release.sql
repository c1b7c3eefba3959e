-- release ends holds, now or later. outcome: 1 it was there, 0 it was not, -1 the
-- record is damaged, 2 as for renew. Those who wait are told if the row is
-- watched, and only then: a notification makes commits wait for one another.
CREATE OR REPLACE FUNCTION {schema}.release(
  in_resources text[], in_lock_ids text[], in_hold_ids text[], in_tokens bigint[], in_afters_ms bigint[], in_wait boolean
) RETURNS TABLE (item bigint, outcome int)
LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  q     record;
  r     record;
  all_  jsonb;
  h     jsonb;
  clock bigint;
BEGIN
  IF NOT {schema}.whole() THEN
    PERFORM {schema}.refuse();
  END IF;
  IF in_wait THEN
    PERFORM set_config('lock_timeout', '500', true);
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN -- what a crash takes back could be given to two
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  FOR q IN
    SELECT * FROM unnest(in_resources, in_lock_ids, in_hold_ids, in_tokens, in_afters_ms)
      WITH ORDINALITY AS t (resource, lock_id, hold_id, token, after_ms, n) ORDER BY t.resource COLLATE "C", n
  LOOP
    item := q.n;
    outcome := 0;
    IF in_wait THEN
      SELECT l.holds, l.watched, l.due INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE;
    ELSE
      SELECT l.holds, l.watched, l.due INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE SKIP LOCKED;
    END IF;
    IF NOT FOUND THEN
      IF EXISTS (SELECT FROM {schema}.locks l WHERE l.resource = q.resource) THEN
        outcome := 2;
      END IF;
      RETURN NEXT;
      CONTINUE;
    END IF;
    clock := {schema}.clock();
    IF NOT {schema}.sound(r.holds) THEN
      outcome := -1;
      RETURN NEXT;
      CONTINUE;
    END IF;
    all_ := r.holds || '[]'; -- unpacked
    FOR i IN 0 .. jsonb_array_length(all_) - 1 LOOP
      h := all_->i;
      CONTINUE WHEN NOT {schema}.matches(h, q.lock_id, q.hold_id, q.token);
      outcome := 1;
      IF q.after_ms = 0 OR NOT {schema}.live(h, clock) THEN
        all_ := all_ - i;
        IF all_ = '[]' AND r.due > clock THEN -- else the next sweep looks
          r.due := -clock;
        END IF;
      ELSE
        h := h || jsonb_build_object('released', true, 'end', least((h->'end')::bigint, clock + q.after_ms * 1000));
        all_ := jsonb_set(all_, ARRAY[i::text], h);
        r.due := least(r.due, {schema}.over(h));
      END IF;
      UPDATE {schema}.locks l
        SET holds = all_, touched = greatest(l.touched + 1, clock), due = r.due
        WHERE l.resource = q.resource;
      IF NOT FOUND THEN
        PERFORM {schema}.unchanged(q.resource);
      END IF;
      IF r.watched > clock THEN
        PERFORM pg_notify({channel}, q.resource);
      END IF;
      EXIT;
    END LOOP;
    RETURN NEXT;
  END LOOP;
END
$fn$;
