-- One row per resource. All that decides about it is in its row, which every
-- change locks: nothing else is looked at. Holds are those of package model, in
-- its JSON; token is the last one granted, touched the record's version, and as
-- long as watched lies ahead, releases are told to those who wait. Times are in
-- microseconds since 1970.
--
-- No column that changes is indexed, and pages are half empty, so that updates
-- stay in the page and leave the index alone.
DO $do$
BEGIN
  IF to_regnamespace({schema_text}) IS NULL THEN
    CREATE SCHEMA {schema};
  END IF;
END
$do$;

CREATE TABLE IF NOT EXISTS {schema}.locks (
  resource text COLLATE "C" PRIMARY KEY,
  token    bigint NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9007199254740991),
  touched  bigint NOT NULL DEFAULT 0 CHECK (touched >= 0),
  holds    jsonb  NOT NULL DEFAULT '[]'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

ALTER TABLE {schema}.locks ADD COLUMN IF NOT EXISTS watched bigint NOT NULL DEFAULT 0;

-- sound says that this is holds that could have been granted, as far as anything
-- is decided by them: the rules are those of package model. What is not sound is
-- neither decided on nor changed.
CREATE OR REPLACE FUNCTION {schema}.sound(in_holds jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT CASE WHEN in_holds = '[]' THEN true WHEN jsonb_typeof(in_holds) <> 'array' THEN false ELSE
    jsonb_array_length(in_holds) = jsonb_array_length(jsonb_path_query_array(in_holds, 'strict $[*] ? (
      @.lockId.type() == "string" && @.lockId != ""
      && @.holdId like_regex "^[0-9a-f]{24}$" && @.holdId != "000000000000000000000000"
      && (@.mode == "exclusive" || @.mode == "shared")
      && @.token >= 1 && @.token <= 9007199254740991 && @.token == @.token.floor()
      && @.created >= 0 && @.created == @.created.floor()
      && ((exists(@.end)) is unknown
        || @.end >= 1 && @.end <= 12160799254740991 && @.end == @.end.floor())
      && ((exists(@.takeoverDelayMs)) is unknown
        || @.takeoverDelayMs >= 0 && @.takeoverDelayMs <= 3153600000000 && @.takeoverDelayMs == @.takeoverDelayMs.floor())
      && ((exists(@.released)) is unknown || @.released == true || @.released == false)
    )')) END
$fn$;

-- live: not yet at its end.
CREATE OR REPLACE FUNCTION {schema}.live(in_hold jsonb, in_clock bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT in_hold->'end' IS NULL OR in_clock < (in_hold->'end')::bigint
$fn$;

-- blocks: nor at the end of its takeover delay, unless it was released.
CREATE OR REPLACE FUNCTION {schema}.blocks(in_hold jsonb, in_clock bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT in_hold->'end' IS NULL OR in_clock < (in_hold->'end')::bigint +
    CASE WHEN (in_hold->'released')::boolean THEN 0 ELSE coalesce((in_hold->'takeoverDelayMs')::bigint, 0) * 1000 END
$fn$;

-- matches: the hold is the one that was asked for.
CREATE OR REPLACE FUNCTION {schema}.matches(in_hold jsonb, in_lock_id text, in_hold_id text, in_token bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT in_hold->>'lockId' = in_lock_id
    AND (in_hold_id = '' OR in_hold->>'holdId' = in_hold_id)
    AND (in_token = 0 OR (in_hold->'token')::bigint = in_token)
$fn$;

-- clock is the time now, not that of the transaction.
CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint
LANGUAGE sql VOLATILE AS $fn$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$fn$;

-- acquire decides one request. outcome: 1 granted, or found granted; 0 refused,
-- because of the holds that it returns; 2 another transaction has the row locked;
-- -1 the record is damaged; -2 tokens are used up. in_hold is the hold, without
-- what it gets here; a limit of 0 is none, and a TTL below 0 one without an end.
--
-- It looks without a lock first, for a refusal writes nothing: to lock a row is a
-- write. What it then sees was so when the statement began to look, and the clock
-- is read after that: a hold that blocks by this clock has blocked at that moment.
-- What would be granted is decided again with the row locked, on what the lock
-- returned, which is its latest state, by a clock read after that. Whatever
-- another statement of this transaction saw decides nothing.
--
-- An insert never decides: the new row is empty, and is looked at as any other.
CREATE OR REPLACE FUNCTION {schema}.acquire(
  in_resource text, in_hold jsonb, in_limit bigint, in_ttl_ms bigint,
  OUT outcome int, OUT clock bigint, OUT token bigint, OUT touched bigint, OUT ends bigint, OUT holds jsonb
) LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  me     text := in_hold->>'lockId';
  alone  boolean := in_hold->>'mode' <> 'shared';
  h      jsonb;
  kept   jsonb; -- holds, but for those that block no more
  others bigint;
  barred boolean;
  mine   boolean;
  there  boolean;
  locked boolean := false;
  limits text;
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE read_only_sql_transaction USING MESSAGE = 'a standby does not decide';
  END IF;
  SELECT l.token, l.touched, l.holds INTO token, touched, holds FROM {schema}.locks l WHERE l.resource = in_resource;
  there := FOUND;
  LOOP
    IF there THEN
      clock := {schema}.clock();
      kept := holds;
      others := 0;
      barred := false;
      IF holds <> '[]' THEN
        IF NOT {schema}.sound(holds) THEN
          outcome := -1;
          RETURN;
        END IF;
        holds := holds || '[]'; -- the text itself: else each look at a hold would unpack it
        kept := holds;
        FOR i IN REVERSE jsonb_array_length(holds) - 1 .. 0 LOOP
          h := holds->i;
          mine := h->>'lockId' = me;
          IF mine AND h->>'holdId' = in_hold->>'holdId' AND {schema}.live(h, clock) AND (h->'released')::boolean IS NOT TRUE THEN
            outcome := 1;
            token := (h->'token')::bigint;
            ends := (h->'end')::bigint;
            holds := NULL;
            RETURN;
          END IF;
          IF NOT {schema}.blocks(h, clock) THEN
            kept := kept - i;
          ELSIF mine OR alone OR h->>'mode' = 'exclusive' THEN
            barred := true;
          ELSE
            others := others + 1;
          END IF;
        END LOOP;
      END IF;
      IF barred OR in_limit > 0 AND others >= in_limit THEN
        outcome := 0;
        RETURN;
      END IF;
    END IF;
    EXIT WHEN locked;

    SELECT l.token, l.touched, l.holds INTO token, touched, holds
      FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      -- There is no such row, or it is locked: for a moment, unless a transaction
      -- of a user's has it. The caller is to know that soon.
      limits := current_setting('lock_timeout');
      BEGIN
        PERFORM set_config('lock_timeout', '500', true);
        FOR try IN 1 .. 10 LOOP -- a sweep may delete it in between
          INSERT INTO {schema}.locks (resource) VALUES (in_resource) ON CONFLICT DO NOTHING;
          SELECT l.token, l.touched, l.holds INTO token, touched, holds
            FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE;
          EXIT WHEN FOUND;
        END LOOP;
        IF NOT FOUND THEN
          RAISE serialization_failure USING MESSAGE = 'the row is deleted again and again';
        END IF;
        PERFORM set_config('lock_timeout', limits, true);
      EXCEPTION WHEN lock_not_available THEN
        outcome := 2;
        RETURN;
      END;
    END IF;
    there := true;
    locked := true;
  END LOOP;

  token := greatest(token + 1, clock);
  IF token > 9007199254740991 THEN
    outcome := -2;
    RETURN;
  END IF;
  -- A grant that a crash takes back could be given to two.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  outcome := 1;
  touched := greatest(touched + 1, clock);
  h := in_hold || jsonb_build_object('token', token, 'created', clock);
  IF in_ttl_ms >= 0 THEN
    ends := clock + in_ttl_ms * 1000;
    h := h || jsonb_build_object('end', ends);
  END IF;
  holds := NULL;
  UPDATE {schema}.locks l
    SET token = acquire.token, touched = acquire.touched, holds = kept || h
    WHERE l.resource = in_resource;
END
$fn$;

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
  all_    jsonb;
  h       jsonb;
  old_end bigint;
BEGIN
  IF in_wait THEN
    PERFORM set_config('lock_timeout', '500', true);
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  FOR q IN
    SELECT * FROM unnest(in_resources, in_lock_ids, in_hold_ids, in_tokens, in_ttls_ms, in_exact)
      WITH ORDINALITY AS t (resource, lock_id, hold_id, token, ttl_ms, exact, n) ORDER BY t.resource COLLATE "C", n
  LOOP
    item := q.n;
    outcome := 0;
    IF in_wait THEN
      SELECT l.holds INTO all_ FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE;
    ELSE
      SELECT l.holds INTO all_ FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE SKIP LOCKED;
      IF NOT FOUND AND EXISTS (SELECT FROM {schema}.locks l WHERE l.resource = q.resource) THEN
        outcome := 2;
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    IF NOT FOUND THEN
      RETURN NEXT;
      CONTINUE;
    END IF;
    clock := {schema}.clock();
    IF NOT {schema}.sound(all_) THEN
      outcome := -1;
      RETURN NEXT;
      CONTINUE;
    END IF;
    all_ := all_ || '[]'; -- unpacked
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
        SET holds = jsonb_set(all_, ARRAY[i::text], h), touched = greatest(l.touched + 1, renew.clock)
        WHERE l.resource = q.resource;
      EXIT;
    END LOOP;
    RETURN NEXT;
  END LOOP;
END
$fn$;

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
  IF in_wait THEN
    PERFORM set_config('lock_timeout', '500', true);
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  FOR q IN
    SELECT * FROM unnest(in_resources, in_lock_ids, in_hold_ids, in_tokens, in_afters_ms)
      WITH ORDINALITY AS t (resource, lock_id, hold_id, token, after_ms, n) ORDER BY t.resource COLLATE "C", n
  LOOP
    item := q.n;
    outcome := 0;
    IF in_wait THEN
      SELECT l.holds, l.watched INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE;
    ELSE
      SELECT l.holds, l.watched INTO r FROM {schema}.locks l WHERE l.resource = q.resource FOR UPDATE SKIP LOCKED;
      IF NOT FOUND AND EXISTS (SELECT FROM {schema}.locks l WHERE l.resource = q.resource) THEN
        outcome := 2;
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    IF NOT FOUND THEN
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
      ELSE
        h := h || jsonb_build_object('released', true, 'end', least((h->'end')::bigint, clock + q.after_ms * 1000));
        all_ := jsonb_set(all_, ARRAY[i::text], h);
      END IF;
      UPDATE {schema}.locks l
        SET holds = all_, touched = greatest(l.touched + 1, clock)
        WHERE l.resource = q.resource;
      IF r.watched > clock THEN
        PERFORM pg_notify({channel}, q.resource);
      END IF;
      EXIT;
    END LOOP;
    RETURN NEXT;
  END LOOP;
END
$fn$;

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
  IF pg_is_in_recovery() THEN
    RAISE read_only_sql_transaction USING MESSAGE = 'a standby tells of no release';
  END IF;
  PERFORM set_config('lock_timeout', '500', true);
  FOR resource IN SELECT r FROM unnest(in_resources) AS r ORDER BY r COLLATE "C" LOOP
    FOR try IN 1 .. 10 LOOP
      SELECT l.watched INTO until FROM {schema}.locks l WHERE l.resource = watch.resource;
      clock := {schema}.clock();
      remains := until - clock;
      EXIT WHEN remains > in_for / 2;
      IF NOT FOUND THEN
        INSERT INTO {schema}.locks (resource) VALUES (watch.resource) ON CONFLICT DO NOTHING;
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

-- list returns records that have holds, in the order of their resources, with the
-- time: one of them, or those after in_after, no more than in_rows. in_lock_id
-- chooses those where it may have a hold; '' chooses all.
CREATE OR REPLACE FUNCTION {schema}.list(in_resource text, in_lock_id text, in_after text, in_rows int)
RETURNS TABLE (resource text, clock bigint, token bigint, touched bigint, holds jsonb)
LANGUAGE plpgsql VOLATILE AS $fn$
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE read_only_sql_transaction USING MESSAGE = 'a standby may lag behind';
  END IF;
  IF in_resource <> '' THEN
    RETURN QUERY
      SELECT l.resource, {schema}.clock(), l.token, l.touched, l.holds
      FROM {schema}.locks l WHERE l.resource = in_resource AND l.resource > in_after AND l.holds <> '[]';
    RETURN;
  END IF;
  RETURN QUERY
    SELECT l.resource, {schema}.clock(), l.token, l.touched, l.holds
    FROM {schema}.locks l
    WHERE l.resource > in_after AND l.holds <> '[]'
      AND (in_lock_id = '' OR l.holds @> jsonb_build_array(jsonb_build_object('lockId', in_lock_id)))
    ORDER BY l.resource LIMIT in_rows;
END
$fn$;

-- sweep looks at in_rows rows after in_after. It drops the holds that block no
-- more, and deletes the rows that have had none for in_idle microseconds and whose
-- last token lies as far back: a row made anew has a larger one. It returns the
-- last resource that it looked at, null after the last of all. Rows that somebody
-- works on are left for the next sweep, as are those that are damaged.
CREATE OR REPLACE FUNCTION {schema}.sweep(
  in_idle bigint, in_after text, in_rows int, OUT dropped bigint, OUT deleted bigint, OUT last text
) LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  r     record;
  seen  int := 0;
  kept  jsonb;
  gone  int;
  clock bigint;
  idle  boolean;
BEGIN
  dropped := 0;
  deleted := 0;
  FOR last IN SELECT l.resource FROM {schema}.locks l WHERE l.resource > in_after ORDER BY l.resource LIMIT in_rows LOOP
    seen := seen + 1;
    SELECT l.holds, l.token, l.touched, l.watched INTO r FROM {schema}.locks l WHERE l.resource = last;
    FOR pass IN 1 .. 2 LOOP -- what is seen without a lock decides nothing
      EXIT WHEN NOT FOUND OR NOT {schema}.sound(r.holds);
      clock := {schema}.clock();
      gone := 0;
      kept := r.holds || '[]'; -- unpacked
      FOR i IN REVERSE jsonb_array_length(kept) - 1 .. 0 LOOP
        IF NOT {schema}.blocks(kept->i, clock) THEN
          kept := kept - i;
          gone := gone + 1;
        END IF;
      END LOOP;
      idle := r.holds = '[]' AND r.touched <= clock - in_idle AND r.token <= clock - in_idle AND r.watched <= clock;
      EXIT WHEN gone = 0 AND NOT idle;
      IF pass = 1 THEN
        SELECT l.holds, l.token, l.touched, l.watched INTO r
          FROM {schema}.locks l WHERE l.resource = last FOR UPDATE SKIP LOCKED;
      ELSIF idle THEN
        DELETE FROM {schema}.locks l WHERE l.resource = last;
        deleted := deleted + 1;
      ELSE
        UPDATE {schema}.locks l SET holds = kept, touched = greatest(l.touched + 1, clock) WHERE l.resource = last;
        dropped := dropped + gone;
        IF r.watched > clock THEN
          PERFORM pg_notify({channel}, last);
        END IF;
      END IF;
    END LOOP;
  END LOOP;
  IF seen < in_rows THEN
    last := NULL;
  END IF;
END
$fn$;

-- What Init looks for.
COMMENT ON TABLE {schema}.locks IS 'Locks of Holdfast, layout {layout}';

