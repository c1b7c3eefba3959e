-- release ends holds, now or later. outcome: 1 it was there, 0 it was not, -1 the
-- record is damaged, 2 as for renew, which goes through rows and items likewise.
-- Those who wait are told if the row is watched, and only then: a notification
-- makes commits wait for one another.
CREATE OR REPLACE FUNCTION {schema}.release(
  in_resources text[], in_lock_ids text[], in_hold_ids text[], in_tokens bigint[], in_afters_ms bigint[], in_wait boolean
) RETURNS TABLE (item bigint, outcome int)
LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  q       record;
  r       record;
  all_    jsonb;
  hs      jsonb[];
  ids     text[]; -- their lock IDs
  h       jsonb;
  i       int;
  verdict int; -- on all items, unless their holds are found
  clock   bigint;
  changed int;
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
    SELECT t.resource, array_agg(t.n ORDER BY t.n) AS items
      FROM (SELECT unnest(in_resources) COLLATE "C" AS resource, generate_subscripts(in_resources, 1) AS n) t
      GROUP BY t.resource ORDER BY t.resource
  LOOP
    IF in_wait THEN
      SELECT l.holds, l.watched, l.due INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE;
    ELSE
      SELECT l.holds, l.watched, l.due INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE SKIP LOCKED;
    END IF;
    verdict := 0;
    hs := '{}';
    ids := '{}';
    IF NOT FOUND THEN
      IF EXISTS (SELECT FROM {schema}.locks l WHERE l.resource = q.resource) THEN
        verdict := 2;
      END IF;
    ELSIF NOT {schema}.sound(r.holds) THEN
      verdict := -1;
    ELSE
      all_ := r.holds || '[]'; -- unpacked
      FOR n IN 0 .. jsonb_array_length(all_) - 1 LOOP
        hs[n + 1] := all_->n;
        ids[n + 1] := all_->n->>'lockId';
      END LOOP;
    END IF;
    clock := {schema}.clock();
    changed := 0;
    FOREACH item IN ARRAY q.items LOOP
      outcome := verdict;
      i := 0;
      LOOP
        i := array_position(ids, in_lock_ids[item], i + 1);
        EXIT WHEN i IS NULL OR {schema}.matches(hs[i], in_lock_ids[item], in_hold_ids[item], in_tokens[item]);
      END LOOP;
      IF i IS NOT NULL THEN
        outcome := 1;
        changed := changed + 1;
        h := hs[i];
        IF in_afters_ms[item] = 0 OR NOT {schema}.live(h, clock) THEN
          hs[i] := NULL;
          ids[i] := NULL;
        ELSE
          h := h || jsonb_build_object('released', true, 'end', least((h->'end')::bigint, clock + in_afters_ms[item] * 1000));
          hs[i] := h;
          r.due := least(r.due, {schema}.over(h));
        END IF;
      END IF;
      RETURN NEXT;
    END LOOP;
    IF changed > 0 THEN
      hs := array_remove(hs, NULL);
      IF hs = '{}' AND r.due > clock THEN -- else the next sweep looks
        r.due := -clock;
      END IF;
      UPDATE {schema}.locks l
        SET holds = to_jsonb(hs), touched = greatest(l.touched + 1, clock) + changed - 1, due = r.due
        WHERE l.resource = q.resource;
      IF NOT FOUND THEN
        PERFORM {schema}.unchanged(q.resource);
      END IF;
      IF r.watched > clock THEN
        PERFORM pg_notify({channel}, q.resource);
      END IF;
    END IF;
  END LOOP;
END
$fn$;
