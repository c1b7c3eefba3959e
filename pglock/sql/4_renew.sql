-- renew extends holds. outcome: 1 extended, 0 lost, -1 the record is damaged, 2
-- the row is locked by another transaction: ask for it again with in_wait.
--
-- Rows are locked in the order of their resources, each until the batch commits,
-- and each decided by a clock read after that. Without in_wait it waits for none,
-- so that one row cannot hold up the others; with it, a wait is bounded. All that
-- is asked of a row is done in the order it was asked in, and written once: many
-- hold one resource, and each would else write the holds of all.
CREATE OR REPLACE FUNCTION {schema}.renew(
  in_resources text[], in_lock_ids text[], in_hold_ids text[], in_tokens bigint[], in_ttls_ms bigint[], in_exact boolean[], in_wait boolean
) RETURNS TABLE (item bigint, outcome int, clock bigint, ends bigint)
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
  old_end bigint;
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
      SELECT l.holds, l.due INTO r FROM {schema}.locks l WHERE l.resource = res FOR UPDATE;
    ELSE
      SELECT l.holds, l.due INTO r FROM {schema}.locks l WHERE l.resource = res FOR UPDATE SKIP LOCKED;
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
      ends := NULL; -- never
      i := 0;
      LOOP
        i := array_position(ids, in_lock_ids[item], i + 1);
        EXIT WHEN i IS NULL OR {schema}.matches(hs[i], in_lock_ids[item], in_hold_ids[item], in_tokens[item]);
      END LOOP;
      IF i IS NOT NULL AND {schema}.live(hs[i], clock) AND (hs[i]->'released')::boolean IS NOT TRUE THEN
        outcome := 1;
        changed := changed + 1;
        h := hs[i];
        old_end := (h->'end')::bigint;
        IF in_ttls_ms[item] >= 0 THEN
          ends := clock + in_ttls_ms[item] * 1000;
        END IF;
        IF NOT in_exact[item] AND (old_end IS NULL OR ends <= old_end) THEN
          ends := old_end;
        END IF;
        h := h || jsonb_build_object('renewed', clock);
        IF ends IS NULL THEN
          h := h - 'end';
        ELSE
          h := h || jsonb_build_object('end', ends);
        END IF;
        hs[i] := h;
        r.due := least(r.due, {schema}.over(h)); -- an exact one may have come nearer
      END IF;
      RETURN NEXT;
    END LOOP;
    IF changed > 0 THEN
      UPDATE {schema}.locks l
        SET holds = to_jsonb(hs), touched = greatest(l.touched + 1, renew.clock) + changed - 1, due = r.due
        WHERE l.resource = res;
      IF NOT FOUND THEN
        PERFORM {schema}.unchanged(res);
      END IF;
    END IF;
  END LOOP;
END
$fn$;
