-- renew extends holds. outcome: 1 extended, 0 lost, -1 the record is damaged, 2
-- the row is locked by another transaction: ask for it again with in_wait.
--
-- Rows are locked in the order of their resources, each until the batch commits,
-- and each decided by a clock read after that. Without in_wait it waits for none,
-- so that one row cannot hold up the others; with it, a wait is bounded.
CREATE OR REPLACE FUNCTION {schema}.renew(
  in_resources text[], in_lock_ids text[], in_hold_ids text[], in_tokens bigint[], in_ttls_ms bigint[], in_exact boolean[], in_wait boolean
) RETURNS TABLE (item bigint, outcome int, clock bigint, ends bigint)
LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  q       record;
  r       record;
  all_    jsonb;
  h       jsonb;
  old_end bigint;
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
    SELECT * FROM unnest(in_resources, in_lock_ids, in_hold_ids, in_tokens, in_ttls_ms, in_exact)
      WITH ORDINALITY AS t (resource, lock_id, hold_id, token, ttl_ms, exact, n) ORDER BY t.resource COLLATE "C", n
  LOOP
    item := q.n;
    outcome := 0;
    IF in_wait THEN
      SELECT l.holds, l.due INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE;
    ELSE
      SELECT l.holds, l.due INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE SKIP LOCKED;
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
      EXIT WHEN NOT {schema}.live(h, clock) OR (h->'released')::boolean;
      outcome := 1;
      old_end := (h->'end')::bigint;
      ends := CASE WHEN q.ttl_ms >= 0 THEN clock + q.ttl_ms * 1000 END; -- null: never
      IF NOT q.exact AND (old_end IS NULL OR ends <= old_end) THEN
        ends := old_end;
      END IF;
      h := h || jsonb_build_object('renewed', clock);
      IF ends IS NULL THEN
        h := h - 'end';
      ELSE
        h := h || jsonb_build_object('end', ends);
      END IF;
      UPDATE {schema}.locks l
        SET holds = jsonb_set(all_, ARRAY[i::text], h), touched = greatest(l.touched + 1, renew.clock),
          due = least(r.due, {schema}.over(h)) -- an exact one may have come nearer
        WHERE l.resource = q.resource;
      IF NOT FOUND THEN
        PERFORM {schema}.unchanged(q.resource);
      END IF;
      EXIT;
    END LOOP;
    RETURN NEXT;
  END LOOP;
END
$fn$;
