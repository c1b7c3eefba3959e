-- acquire decides one request. outcome: 1 granted, or found granted; 0 refused,
-- because of the holds that it returns; 2 another transaction has the row locked;
-- -1 the record is damaged; -2 tokens are used up. in_hold is the hold, without
-- what it gets here; a limit of 0 is none, and a TTL below 0 one without an end.
-- Where in_hold says what the limit is, other limits are refused beside it.
--
-- It looks without a lock first, for a refusal writes nothing: to lock a row is a
-- write. What it then sees was so when the statement began to look, and the clock
-- is read after that: a hold that blocks by this clock has blocked at that moment.
-- What would be granted is decided again with the row locked, on what the lock
-- returned, which is its latest state, by a clock read after that. Whatever
-- another statement of this transaction saw decides nothing.
--
-- That goes for the hold that a repeat finds, too. The try that was granted it may
-- have no answer because its commit waits for a synchronous standby; if that wait
-- is given up, the hold is there to be seen, and on no standby. With the row locked
-- this transaction has an ID, and its commit waits in its turn for all before it.
--
-- An insert never decides: the new row is empty, and is looked at as any other.
CREATE OR REPLACE FUNCTION {schema}.acquire(
  in_resource text, in_hold jsonb, in_limit bigint, in_ttl_ms bigint,
  OUT outcome int, OUT clock bigint, OUT token bigint, OUT touched bigint, OUT ends bigint, OUT holds jsonb
) LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  me      text := in_hold->>'lockId';
  alone   boolean := in_hold->>'mode' <> 'shared';
  agreed  jsonb := CASE WHEN alone THEN NULL ELSE in_hold->'limit' END;
  lasting bigint := in_ttl_ms * 1000 + coalesce((in_hold->'takeoverDelayMs')::bigint, 0) * 1000;
  h       jsonb;
  kept    jsonb; -- holds, but for those that block no more
  others  bigint;
  barred  boolean;
  mine    boolean;
  found_  jsonb; -- the hold of an earlier try
  due_    bigint;
  there   boolean;
  locked  boolean := false;
  limits  text;
BEGIN
  IF NOT {schema}.whole() THEN
    PERFORM {schema}.refuse();
  END IF;
  SELECT l.token, l.touched, l.holds INTO token, touched, holds FROM {schema}.locks l WHERE l.resource = in_resource;
  there := FOUND;
  LOOP
    IF there THEN
      clock := {schema}.clock();
      kept := holds;
      others := 0;
      barred := false;
      found_ := NULL;
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
            found_ := h;
            EXIT;
          END IF;
          IF NOT {schema}.blocks(h, clock) THEN
            kept := kept - i;
          ELSIF mine OR alone OR h->>'mode' = 'exclusive' OR h->'limit' <> agreed THEN
            barred := true;
          ELSE
            others := others + 1;
          END IF;
        END LOOP;
      END IF;
      IF found_ IS NULL AND (barred OR in_limit > 0 AND others >= in_limit) THEN
        outcome := 0;
        RETURN;
      END IF;
    END IF;
    EXIT WHEN locked;

    SELECT l.token, l.touched, l.holds, l.due INTO token, touched, holds, due_
      FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE SKIP LOCKED;
    locked := FOUND;
    IF NOT locked THEN
      -- There is no such row, or it is locked: for a moment, unless a transaction
      -- of a user's has it. The caller is to know that soon.
      limits := current_setting('lock_timeout');
      BEGIN
        PERFORM set_config('lock_timeout', '500', true);
        FOR try IN 1 .. 10 LOOP -- a sweep may delete it in between
          INSERT INTO {schema}.locks (resource, due)
            VALUES (in_resource, CASE WHEN in_ttl_ms >= 0 THEN {schema}.clock() + lasting ELSE {never} END) ON CONFLICT DO NOTHING;
          SELECT l.token, l.touched, l.holds, l.due INTO token, touched, holds, due_
            FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE;
          locked := FOUND;
          EXIT WHEN locked;
        END LOOP;
        IF NOT locked THEN
          RAISE serialization_failure USING MESSAGE = 'the row is deleted again and again, or no lock of it can be had';
        END IF;
        PERFORM set_config('lock_timeout', limits, true);
      EXCEPTION WHEN lock_not_available THEN
        outcome := 2;
        RETURN;
      END;
    END IF;
    there := true;
  END LOOP;

  IF current_setting('synchronous_commit') = 'off' THEN -- what a crash takes back could be given to two
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  IF found_ IS NOT NULL THEN
    outcome := 1;
    token := (found_->'token')::bigint;
    ends := (found_->'end')::bigint;
    holds := NULL;
    RETURN;
  END IF;
  token := greatest(token + 1, clock);
  IF token > 9007199254740991 THEN
    outcome := -2;
    RETURN;
  END IF;
  outcome := 1;
  touched := greatest(touched + 1, clock);
  h := in_hold || jsonb_build_object('token', token, 'created', clock);
  IF in_ttl_ms >= 0 THEN
    ends := clock + in_ttl_ms * 1000;
    h := h || jsonb_build_object('end', ends);
  END IF;
  holds := NULL;
  -- Somebody else's row may be due later than this hold is over. One that is locked
  -- again and again becomes due at once, and stays so until the next sweep: else
  -- each acquire and each release would change the index.
  IF due_ < 0 AND -due_ > clock - 60000000 THEN
    due_ := clock;
  ELSIF due_ < 0 OR due_ > clock + lasting THEN
    due_ := CASE WHEN in_ttl_ms >= 0 THEN clock + lasting WHEN due_ < 0 THEN {never} ELSE due_ END;
  END IF;
  UPDATE {schema}.locks l
    SET token = acquire.token, touched = acquire.touched, holds = kept || h, due = due_
    WHERE l.resource = in_resource;
  IF NOT FOUND THEN
    PERFORM {schema}.unchanged(in_resource);
  END IF;
END
$fn$;

-- acquire_tx is acquire in a transaction that goes on afterwards. Whatever is not
-- granted is rolled back: a lock on the row of another's hold would keep that from
-- being renewed until the transaction ends.
--
-- A transaction whose snapshot is older than the statement locks the row first: if
-- it has changed since, the server gives up (40001), and what was so once decides
-- nothing.
CREATE OR REPLACE FUNCTION {schema}.acquire_tx(
  in_resource text, in_hold jsonb, in_limit bigint, in_ttl_ms bigint,
  OUT outcome int, OUT clock bigint, OUT token bigint, OUT touched bigint, OUT ends bigint, OUT holds jsonb
) LANGUAGE plpgsql VOLATILE AS $fn$
DECLARE
  limits text := current_setting('lock_timeout');
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM set_config('lock_timeout', '500', true);
    PERFORM FROM {schema}.locks l WHERE l.resource = in_resource FOR UPDATE;
    PERFORM set_config('lock_timeout', limits, true);
  END IF;
  SELECT a.* INTO outcome, clock, token, touched, ends, holds
    FROM {schema}.acquire(in_resource, in_hold, in_limit, in_ttl_ms) a;
  IF outcome <> 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'HF000';
  END IF;
EXCEPTION
  WHEN lock_not_available THEN
    outcome := 2;
  WHEN SQLSTATE 'HF000' THEN
    NULL;
END
$fn$;
