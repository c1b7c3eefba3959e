-- release ends holds, now or later. outcome: 1 it was there, 0 it was not, -1 the
-- record is damaged, 2 as for renew, which goes through rows and items likewise.
-- Those who wait are told if the row is watched, and only then: a notification
-- makes commits wait for one another.
CREATE OR REPLACE FUNCTION {schema}.release(
  in_resources text[], in_lock_ids text[], in_hold_ids text[], in_tokens bigint[], in_afters_ms bigint[], in_wait boolean
) RETURNS TABLE (item bigint, outcome int)
LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  sorted  bigint[] := '{1}'; -- the items, by resource
  at      int := 1;          -- in it
  res     text;
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
  IF cardinality(in_resources) <> 1 THEN -- one needs no query to sort it
    sorted := ARRAY(SELECT t.n FROM unnest(in_resources) WITH ORDINALITY t (resource, n) ORDER BY t.resource COLLATE "C", t.n);
  END IF;
  WHILE at <= cardinality(sorted) LOOP
    res := in_resources[sorted[at]];
    IF in_wait THEN
      SELECT l.holds, l.watched, l.due INTO r FROM {schema}.locks l WHERE l.resource = res FOR UPDATE;
    ELSE
      SELECT l.holds, l.watched, l.due INTO r FROM {schema}.locks l WHERE l.resource = res FOR UPDATE SKIP LOCKED;
    END IF;
    verdict := 0;
    hs := '{}';
    ids := '{}';
    IF NOT FOUND THEN
      IF EXISTS (SELECT FROM {schema}.locks l WHERE l.resource = res) THEN
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
    WHILE in_resources[sorted[at]] = res LOOP
      item := sorted[at];
      at := at + 1;
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
        WHERE l.resource = res;
      IF NOT FOUND THEN
        PERFORM {schema}.unchanged(res);
      END IF;
      IF r.watched > clock THEN
        PERFORM pg_notify({channel}, res);
      END IF;
    END IF;
  END LOOP;
END
$fn$;
