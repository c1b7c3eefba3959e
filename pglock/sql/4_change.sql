-- renewed is the hold after a renewal, which only moves the end later. A TTL below 0 is one
-- without an end.
CREATE OR REPLACE FUNCTION {schema}.renewed(in_hold jsonb, in_ttl_ms bigint, in_clock bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $fn$
  SELECT jsonb_strip_nulls(in_hold || jsonb_build_object('renewed', in_clock, 'end',
    CASE WHEN in_ttl_ms < 0 OR in_hold->'end' IS NULL THEN NULL
      ELSE greatest((in_hold->'end')::bigint, in_clock + in_ttl_ms * 1000) END))
$fn$;

-- released is the hold after a release: null, or one that ends later and cannot be
-- renewed until then.
CREATE OR REPLACE FUNCTION {schema}.released(in_hold jsonb, in_after_ms bigint, in_clock bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $fn$
  SELECT CASE WHEN in_after_ms > 0 AND {schema}.live(in_hold, in_clock) THEN
    in_hold || jsonb_build_object('released', true, 'end', least((in_hold->'end')::bigint, in_clock + in_after_ms * 1000)) END
$fn$;

-- absent reports whether there is no row. A row of a transaction that has not committed
-- yet is not visible, but an insert waits for it.
CREATE OR REPLACE FUNCTION {schema}.absent(in_resource text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $fn$
BEGIN
  INSERT INTO {schema}.locks (resource) VALUES (in_resource) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM {schema}.locks l WHERE l.resource = in_resource;
  RETURN true;
END
$fn$;

-- change renews or releases holds; with in_places, releases take these places out of the
-- queue, and without a hold ID nothing else. outcome: 1 done, 0 there is no such hold, or none
-- that can be renewed; -1 the record is damaged; 2 another transaction has the row
-- locked, or may yet commit it: call again with in_wait. in_ms are the TTLs of
-- renewals, or the delays of releases.
--
-- The items are sorted by resource, so rows are locked in one order, each until the
-- batch commits, and each decided by a clock read after that. Without in_wait it
-- waits for no row, so that one row cannot delay the others; with it, a wait is
-- bounded. The requests for a row are applied in their order and written once,
-- because a resource may have many holds. A queue that has not changed is not written: it
-- may be long, and then the server keeps it apart from the row.
--
-- A release notifies only if the row is watched, because notifications make commits
-- wait for one another. If a session that does not read fills the server's queue of
-- notifications, releases do not notify, because they could not commit.
CREATE OR REPLACE FUNCTION {schema}.change(
  in_resources text[], in_lock_ids text[], in_hold_ids text[], in_tokens bigint[], in_ms bigint[],
  in_places text[], in_release boolean, in_wait boolean
) RETURNS TABLE (outcome int, clock bigint, ends bigint, waiters int)
LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  complete constant boolean := {schema}.complete();
  item    int := 1;
  name    text;
  r       record;
  verdict int;     -- on all items of the row, unless their holds are found
  hs      jsonb[]; -- the row's holds
  ids     text[];  -- their lock IDs
  i       int;
  changed int;
  live    jsonb;   -- the live places
  listed  jsonb;   -- all places that no item has left
  left_   jsonb;   -- those that one item leaves
  wake    boolean; -- somebody may be granted the resource now
  fair    boolean; -- a fair place is gone
  stored  boolean;
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN -- what a crash takes back could be granted twice
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  WHILE item <= cardinality(in_resources) LOOP
    name := in_resources[item];
    IF in_wait THEN
      SELECT * INTO r FROM {schema}.locks l WHERE l.resource = name FOR UPDATE;
    ELSE
      SELECT * INTO r FROM {schema}.locks l WHERE l.resource = name FOR UPDATE SKIP LOCKED;
    END IF;
    verdict := 0;
    hs := '{}';
    ids := '{}';
    IF NOT FOUND THEN
      IF NOT in_wait OR NOT {schema}.absent(name) THEN
        verdict := 2;
      END IF;
    ELSIF NOT {schema}.sound(r.holds) OR NOT {schema}.sound_places(r.places) THEN
      verdict := -1;
    ELSE
      r.holds := r.holds || '[]'; -- unpacked
      FOR n IN 1 .. jsonb_array_length(r.holds) LOOP
        hs[n] := r.holds->(n - 1);
        ids[n] := hs[n]->>'lockId';
      END LOOP;
    END IF;
    clock := {schema}.clock();
    changed := 0;
    wake := false;
    fair := false;
    live := CASE WHEN verdict = 0 AND r.places <> '[]' THEN {schema}.live_places(r.places, clock) ELSE '[]' END;
    listed := r.places;
    waiters := jsonb_array_length(live);
    WHILE in_resources[item] = name LOOP
      outcome := verdict;
      ends := NULL; -- never
      IF in_places[item] <> '' AND verdict = 0 AND r.places <> '[]' THEN
        left_ := {schema}.without(listed, in_places[item]);
        IF left_ <> listed THEN
          changed := changed + 1;
          fair := fair OR listed @> jsonb_build_array(jsonb_build_object('placeId', in_places[item], 'fair', true));
          listed := left_;
          live := {schema}.without(live, in_places[item]);
        END IF;
      END IF;
      i := array_position(ids, in_lock_ids[item]);
      IF in_places[item] <> '' AND in_hold_ids[item] = '' THEN
        i := NULL; -- it is about the place alone
      END IF;
      WHILE (in_hold_ids[item] NOT IN ('', hs[i]->>'holdId')) OR in_tokens[item] NOT IN (0, (hs[i]->'token')::bigint) LOOP
        i := array_position(ids, in_lock_ids[item], i + 1);
      END LOOP;
      IF i IS NOT NULL AND (in_release OR {schema}.live(hs[i], clock) AND (hs[i]->'released')::boolean IS NOT TRUE) THEN
        outcome := 1;
        changed := changed + 1;
        IF in_release THEN
          wake := true;
          hs[i] := {schema}.released(hs[i], in_ms[item], clock);
        ELSE
          hs[i] := {schema}.renewed(hs[i], in_ms[item], clock);
        END IF;
        IF hs[i] IS NULL THEN
          ids[i] := NULL;
        END IF;
        ends := (hs[i]->'end')::bigint;
        r.due := least(r.due, {schema}.over(hs[i])); -- an end may have come nearer
      END IF;
      item := item + 1;
      RETURN NEXT;
    END LOOP;
    IF changed > 0 THEN
      hs := array_remove(hs, NULL);
      IF hs = '{}' AND r.due > clock THEN -- else the next sweep looks at the row anyway
        r.due := -clock;
      END IF;
      r.holds := to_jsonb(hs);
      IF fair AND NOT wake THEN
        wake := NOT EXISTS (SELECT FROM jsonb_array_elements(r.holds) h WHERE h->>'mode' = 'exclusive' AND {schema}.blocks(h, change.clock));
      END IF;
      UPDATE {schema}.locks l
        SET holds = r.holds, places = CASE WHEN live = r.places THEN l.places ELSE live END, touched = {schema}.version(l.touched, change.clock) + changed - 1, due = r.due
        WHERE l.resource = name
        RETURNING l.holds = r.holds AND l.places = live INTO stored;
      IF stored IS NOT TRUE THEN
        PERFORM {schema}.unchanged(name);
      END IF;
      IF wake AND r.watched > clock AND pg_notification_queue_usage() < 0.9 THEN
        PERFORM pg_notify({channel}, name);
      END IF;
    END IF;
  END LOOP;
END
$fn$;
