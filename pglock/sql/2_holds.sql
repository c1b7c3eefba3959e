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
