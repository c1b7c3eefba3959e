-- sound reports whether these are holds that could have been granted, by the rules of
-- package model, in all fields that decisions depend on. Functions neither decide on
-- holds that are not sound nor change them.
CREATE OR REPLACE FUNCTION {schema}.sound(in_holds jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT CASE WHEN in_holds = '[]' THEN true WHEN jsonb_typeof(in_holds) <> 'array' THEN false ELSE
    jsonb_array_length(in_holds) = jsonb_array_length(jsonb_path_query_array(in_holds, 'strict $[*] ? (
      @.lockId.type() == "string" && @.lockId != ""
      && @.holdId like_regex "^[0-9a-f]{24}$" && @.holdId != "000000000000000000000000"
      && (@.mode == "exclusive" || @.mode == "shared")
      && @.token >= 1 && @.token <= 9007199254740991 && @.token == @.token.floor()
      && @.created >= 0 && @.created <= 9223372036854775807 && @.created == @.created.floor()
      && ((exists(@.renewed)) is unknown
        || @.renewed >= 0 && @.renewed <= 9223372036854775807 && @.renewed == @.renewed.floor())
      && ((exists(@.end)) is unknown
        || @.end >= 1 && @.end <= 12160799254740991 && @.end == @.end.floor())
      && ((exists(@.takeoverDelayMs)) is unknown
        || @.takeoverDelayMs >= 0 && @.takeoverDelayMs <= 3153600000000 && @.takeoverDelayMs == @.takeoverDelayMs.floor())
      && ((exists(@.released)) is unknown || @.released == true || @.released == false)
      && ((exists(@.limit)) is unknown
        || @.mode == "shared" && @.limit >= 0 && @.limit <= 9223372036854775807 && @.limit == @.limit.floor())
    )')) END
$fn$;

-- sound_places is sound for a queue.
CREATE OR REPLACE FUNCTION {schema}.sound_places(in_places jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT CASE WHEN in_places = '[]' THEN true WHEN jsonb_typeof(in_places) <> 'array' THEN false ELSE
    jsonb_array_length(in_places) = jsonb_array_length(jsonb_path_query_array(in_places, 'strict $[*] ? (
      @.lockId.type() == "string" && @.lockId != ""
      && @.placeId like_regex "^[0-9a-f]{24}$" && @.placeId != "000000000000000000000000"
      && (@.mode == "exclusive" || @.mode == "shared")
      && @.since >= 0 && @.since <= 9223372036854775807 && @.since == @.since.floor()
      && @.asked >= 0 && @.asked <= 9223372036854775807 && @.asked == @.asked.floor()
      && @.until >= 0 && @.until <= 12160799254740991 && @.until == @.until.floor()
      && ((exists(@.fair)) is unknown || @.fair == true || @.fair == false)
      && ((exists(@.limit)) is unknown
        || @.mode == "shared" && @.limit >= 0 && @.limit <= 9223372036854775807 && @.limit == @.limit.floor())
    )')) END
$fn$;

-- live_places returns the places that count. A clock that was set back or ahead makes no
-- place last longer.
CREATE OR REPLACE FUNCTION {schema}.live_places(in_places jsonb, in_clock bigint) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT jsonb_path_query_array(in_places, '$[*] ? (@.asked <= $clock && @.until > $clock)', jsonb_build_object('clock', in_clock))
$fn$;

-- queue returns the live places, those that a request with this place must not pass (the
-- fair ones before its own), and its own with its index. A place of another mode or limit
-- does not count as its own: it starts at the end.
CREATE OR REPLACE FUNCTION {schema}.queue(
  in_places jsonb, in_place jsonb, in_clock bigint, OUT live jsonb, OUT ahead jsonb, OUT own jsonb, OUT index int
) LANGUAGE plpgsql IMMUTABLE AS $fn$
BEGIN
  live := {schema}.live_places(in_places, in_clock);
  SELECT e.p, e.n - 1 INTO own, index FROM jsonb_array_elements(live) WITH ORDINALITY AS e(p, n)
    WHERE e.p->>'placeId' = in_place->>'placeId' AND e.p->'mode' = in_place->'mode'
      AND e.p->'limit' IS NOT DISTINCT FROM in_place->'limit' AND e.p->'fair' IS NOT DISTINCT FROM in_place->'fair';
  ahead := jsonb_path_query_array(live, '$[0 to $last] ? (@.fair == true && @.placeId != $id)',
    jsonb_build_object('last', coalesce(index, jsonb_array_length(live)) - 1, 'id', coalesce(in_place->>'placeId', '')));
END
$fn$;

-- without returns the places but one.
CREATE OR REPLACE FUNCTION {schema}.without(in_places jsonb, in_place_id text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT jsonb_path_query_array(in_places, '$[*] ? (@.placeId != $id)', jsonb_build_object('id', in_place_id))
$fn$;

-- clock is the time now, not that of the transaction.
CREATE OR REPLACE FUNCTION {schema}.clock() RETURNS bigint
LANGUAGE sql VOLATILE AS $fn$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$fn$;

-- live: the hold is not yet at its end.
CREATE OR REPLACE FUNCTION {schema}.live(in_hold jsonb, in_clock bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT in_hold->'end' IS NULL OR in_clock < (in_hold->'end')::bigint
$fn$;

-- over is when the hold stops blocking: at its end, or at the end of its takeover
-- delay unless it was released. Null: never.
CREATE OR REPLACE FUNCTION {schema}.over(in_hold jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT (in_hold->'end')::bigint +
    CASE WHEN (in_hold->'released')::boolean THEN 0 ELSE coalesce((in_hold->'takeoverDelayMs')::bigint, 0) * 1000 END
$fn$;

-- blocks: the hold is not yet over.
CREATE OR REPLACE FUNCTION {schema}.blocks(in_hold jsonb, in_clock bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $fn$
  SELECT coalesce(in_clock < {schema}.over(in_hold), true)
$fn$;

-- complete fails where rows may be missing: on a standby, which lags behind, and if
-- row-level security hides some from the role. It also fails if the server converts
-- names from another encoding: two clients would lock two rows. Every function begins
-- with it, because all of that can begin while programs run.
CREATE OR REPLACE FUNCTION {schema}.complete() RETURNS boolean
LANGUAGE plpgsql STABLE AS $fn$
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE read_only_sql_transaction USING MESSAGE = 'a standby does not decide';
  ELSIF row_security_active('{schema}.locks'::regclass) THEN
    RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE = 'row-level security applies to the role';
  ELSIF pg_client_encoding() <> 'UTF8' THEN
    RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = format('client_encoding is %s', pg_client_encoding());
  END IF;
  RETURN true;
END
$fn$;

-- unchanged fails after a statement that did not store what it wrote, because of a
-- policy, a trigger or a rule: a hold that is not stored is not granted. A trigger can
-- return the old row, which counts as an update, so statements return what is stored.
CREATE OR REPLACE FUNCTION {schema}.unchanged(in_resource text) RETURNS void
LANGUAGE plpgsql STABLE AS $fn$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'HF001', MESSAGE = format('the row of resource %L does not have what was written', in_resource);
END
$fn$;

-- version is that of a row which changes now. It has no overflow: others may write any.
CREATE OR REPLACE FUNCTION {schema}.version(in_touched bigint, in_clock bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $fn$ SELECT greatest(least(in_touched, 9007199254740991) + 1, in_clock) $fn$;
