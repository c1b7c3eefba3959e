-- decide returns the outcome of an acquire beside these holds and places. outcome: 1 it
-- can be granted, or an earlier attempt was (granted is its hold); 0 it is refused; -1 the
-- holds or places are damaged. kept are the holds that still block. self says that the
-- lock ID has a live hold. A limit of 0 is none.
--
-- ahead are the places that the request must not pass. Their waiters count as if they held
-- the resource. own is the request's place and index where it is among the live ones. place
-- is its position in the queue.
CREATE OR REPLACE FUNCTION {schema}.decide(
  in_holds jsonb, in_places jsonb, in_hold jsonb, in_place jsonb, in_clock bigint,
  OUT outcome int, OUT granted jsonb, OUT kept jsonb, OUT self boolean,
  OUT live jsonb, OUT ahead jsonb, OUT own jsonb, OUT index int, OUT place int
) LANGUAGE plpgsql IMMUTABLE AS $fn$
DECLARE
  most   constant bigint := (in_hold->'limit')::bigint;
  h      jsonb;
  mine   boolean;
  beside bigint := 0;
BEGIN
  outcome := 1;
  kept := in_holds;
  live := in_places;
  IF in_holds = '[]' AND in_places = '[]' THEN
    RETURN;
  ELSIF NOT {schema}.sound(in_holds) OR NOT {schema}.sound_places(in_places) THEN
    outcome := -1;
    RETURN;
  END IF;
  self := false;
  ahead := '[]';
  place := 0;
  IF in_places <> '[]' THEN
    SELECT q.* INTO live, ahead, own, index FROM {schema}.queue(in_places, in_place, in_clock) q;
    place := jsonb_array_length(ahead);
  END IF;
  in_holds := in_holds || '[]'; -- unpacks it once, not at each look at a hold
  kept := in_holds;
  FOR i IN REVERSE jsonb_array_length(in_holds) - 1 .. 0 LOOP
    h := in_holds->i;
    mine := h->>'lockId' = in_hold->>'lockId';
    IF mine AND h->>'holdId' = in_hold->>'holdId' AND {schema}.live(h, in_clock) AND (h->'released')::boolean IS NOT TRUE THEN
      granted := h;
      outcome := 1;
      RETURN;
    ELSIF NOT {schema}.blocks(h, in_clock) THEN
      kept := kept - i;
      CONTINUE;
    END IF;
    self := self OR mine AND {schema}.live(h, in_clock);
    IF mine OR h->>'mode' = 'exclusive' OR in_hold->>'mode' = 'exclusive' OR h->'limit' <> in_hold->'limit' THEN
      outcome := 0;
    ELSE
      beside := beside + 1;
    END IF;
  END LOOP;
  FOR i IN 0 .. jsonb_array_length(ahead) - 1 LOOP
    h := ahead->i;
    IF h->>'lockId' = in_hold->>'lockId' OR h->>'mode' = 'exclusive' OR in_hold->>'mode' = 'exclusive' OR h->'limit' <> in_hold->'limit' THEN
      outcome := 0;
    ELSE
      beside := beside + 1;
    END IF;
  END LOOP;
  IF most > 0 AND beside >= most THEN
    outcome := 0;
  END IF;
END
$fn$;

-- lockable locks the row, unless another transaction keeps it locked for longer than it
-- takes to write a place.
CREATE OR REPLACE FUNCTION {schema}.lockable(in_resource text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET lock_timeout = '100ms' AS $fn$
BEGIN
  PERFORM FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE;
  RETURN true;
EXCEPTION
  WHEN lock_not_available THEN
    RETURN false;
END
$fn$;

-- acquire answers one request. outcome is that of decide, with the holds and the first
-- places ahead for a refusal, or -2: tokens are used up. in_hold is the hold without token
-- and times; a TTL below 0 is one without an end. in_place is the request's place without
-- times, or null.
--
-- A refused request gets or keeps its place. That is a courtesy: it waits for no standby
-- and not for long for another transaction, and need not survive a crash. A place that
-- cannot be written is none: then the refusal counts the other places. If in_keep_ms is 0,
-- the place counts if it is there, but is not written.
--
-- If the row has a hold or a place, it decides without a lock first, because a refusal
-- writes nothing, and to lock a row is a write. It sees the row as it was when the
-- statement began, and reads the clock after that: a hold that blocks by this clock has
-- blocked at that moment. A grant is decided again on the row as its lock returned it, by
-- a clock read after that.
--
-- So is the grant of a repeat that finds its hold. The first attempt may have no
-- answer because its commit waits for a synchronous standby; if that wait is given
-- up, the hold is visible here, and on no standby. With the row locked this
-- transaction has an ID, and its commit waits for all before it.
--
-- An insert never decides: the new row is empty, and the function decides on it as on
-- any other.
--
-- All functions that clients call set search_path. In PostgreSQL 14 every role may
-- create functions in public. The server would call one of them in place of its own if
-- the types of its arguments fit better.
CREATE OR REPLACE FUNCTION {schema}.acquire(
  in_resource text, in_hold jsonb, in_ttl_ms bigint, in_place jsonb, in_keep_ms bigint,
  OUT outcome int, OUT clock bigint, OUT ends bigint, OUT token bigint, OUT holds jsonb,
  OUT place int, OUT waiters int, OUT ahead jsonb
) LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $fn$
DECLARE
  complete constant boolean := {schema}.complete();
  keep constant bigint := in_keep_ms * 1000;
  r record; -- the row
  d record; -- the result of decide
  h jsonb;  -- the hold, or the place
  stored boolean;
BEGIN
  SELECT * INTO r FROM {schema}.locks l WHERE l.resource = in_resource;
  IF r.holds <> '[]' OR r.places <> '[]' THEN
    clock := {schema}.clock();
    d := {schema}.decide(r.holds, r.places, in_hold, in_place, clock);
    outcome := d.outcome;
    IF outcome < 0 THEN
      RETURN;
    ELSIF outcome = 0 THEN
      holds := r.holds;
      ahead := jsonb_path_query_array(d.ahead, '$[0 to 3]');
      waiters := jsonb_array_length(d.live);
      place := -1;
      IF in_place IS NULL OR d.self THEN
        RETURN;
      ELSIF d.own - '{since,asked,until}'::text[] = in_place AND (d.own->'until')::bigint BETWEEN clock + keep - keep / 4 AND clock + keep THEN
        place := d.place;
        RETURN;
      END IF;
      waiters := jsonb_array_length({schema}.without(d.live, in_place->>'placeId'));
      IF keep = 0 OR d.own IS NULL AND waiters >= {places} OR NOT {schema}.lockable(in_resource) THEN
        RETURN;
      END IF;
    END IF;
  END IF;

  FOR try IN 1 .. 10 LOOP -- a sweep may delete the row in between
    SELECT * INTO r FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO {schema}.locks (resource, due) VALUES (in_resource, {never}) ON CONFLICT DO NOTHING;
  END LOOP;
  IF r.resource IS NULL THEN
    RAISE serialization_failure USING MESSAGE = 'the row is deleted again and again, or cannot be locked';
  END IF;
  clock := {schema}.clock();
  d := {schema}.decide(r.holds, r.places, in_hold, in_place, clock);
  outcome := d.outcome;
  holds := NULL;
  ahead := NULL;
  place := NULL;
  waiters := NULL;
  IF outcome < 0 THEN
    RETURN;
  ELSIF outcome = 0 THEN
    holds := r.holds;
    ahead := jsonb_path_query_array(d.ahead, '$[0 to 3]');
    place := -1;
    IF keep > 0 AND in_place IS NOT NULL AND NOT d.self THEN
      IF d.own IS NULL THEN
        d.live := {schema}.without(d.live, in_place->>'placeId');
      END IF;
      IF d.own IS NOT NULL OR jsonb_array_length(d.live) < {places} THEN
        place := d.place;
        h := in_place || jsonb_build_object('since', coalesce((d.own->'since')::bigint, clock), 'asked', clock, 'until', clock + keep);
        d.live := CASE WHEN d.own IS NULL THEN d.live || h ELSE jsonb_set(d.live, ARRAY[d.index::text], h) END;
      END IF;
      IF d.live <> r.places THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        UPDATE {schema}.locks l SET places = d.live, touched = {schema}.version(l.touched, acquire.clock)
          WHERE l.resource = in_resource RETURNING l.places = d.live INTO stored;
        IF stored IS NOT TRUE THEN
          PERFORM {schema}.unchanged(in_resource);
        END IF;
      END IF;
    ELSIF in_place IS NOT NULL AND NOT d.self THEN
      d.live := {schema}.without(d.live, in_place->>'placeId');
    END IF;
    waiters := jsonb_array_length(d.live);
    RETURN;
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN -- a grant must outlive a crash
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  IF d.granted IS NOT NULL THEN
    token := (d.granted->'token')::bigint;
    ends := (d.granted->'end')::bigint;
    RETURN;
  END IF;
  token := greatest(r.token + 1, clock);
  IF token > 9007199254740991 THEN
    outcome := -2;
    RETURN;
  END IF;
  h := in_hold || jsonb_build_object('token', token, 'created', clock);
  IF in_ttl_ms >= 0 THEN
    ends := clock + in_ttl_ms * 1000;
    h := h || jsonb_build_object('end', ends);
  END IF;
  d.kept := d.kept || h;
  IF in_place IS NOT NULL AND d.live <> '[]' THEN
    d.live := {schema}.without(d.live, in_place->>'placeId');
  END IF;
  UPDATE {schema}.locks l
    SET token = acquire.token, touched = {schema}.version(l.touched, clock), holds = d.kept, places = d.live,
      due = CASE WHEN l.due < 0 THEN clock ELSE least(l.due, {schema}.over(h)) END
    WHERE l.resource = in_resource
    RETURNING l.token = acquire.token AND l.holds = d.kept AND l.places = d.live INTO stored;
  IF stored IS NOT TRUE THEN
    PERFORM {schema}.unchanged(in_resource);
  END IF;
END
$fn$;

-- acquire_tx is acquire in a transaction that continues afterwards. outcome 2:
-- another transaction has the row locked. It rolls back a refusal: a lock on the row
-- of another client's hold would stop its renewals until the transaction ends.
--
-- A transaction whose snapshot is older than the statement locks the row first: if
-- the row has changed since, the server gives up (40001), so no old state decides.
CREATE OR REPLACE FUNCTION {schema}.acquire_tx(
  in_resource text, in_hold jsonb, in_ttl_ms bigint,
  OUT outcome int, OUT clock bigint, OUT ends bigint, OUT token bigint, OUT holds jsonb,
  OUT place int, OUT waiters int, OUT ahead jsonb
) LANGUAGE plpgsql VOLATILE SET lock_timeout = '500ms' SET search_path = pg_catalog, pg_temp AS $fn$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE;
  END IF;
  SELECT a.* INTO outcome, clock, ends, token, holds, place, waiters, ahead
    FROM {schema}.acquire(in_resource, in_hold, in_ttl_ms, NULL, 0) a;
  IF outcome <> 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'HF003'; -- rolls back; the answer stays. HF000 would stand for all of HF
  END IF;
EXCEPTION
  WHEN lock_not_available THEN
    outcome := 2;
  WHEN SQLSTATE 'HF003' THEN
    NULL;
END
$fn$;
