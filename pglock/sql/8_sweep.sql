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
