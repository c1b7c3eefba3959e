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
