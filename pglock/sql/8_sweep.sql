-- sweep drops the holds that block no more, and deletes the rows that have had none
-- for in_idle microseconds and whose last token lies as far back: a row made anew
-- has a larger one. It goes on until it has changed in_most rows; more says that
-- there are others. What somebody works on, and what is damaged, is left.
--
-- Which rows to look at, column due says. At 0 or above it is when a hold may be
-- over, or an earlier time; below 0 nobody has held the resource since -due, or a
-- later time. Who makes a hold keeps it so. Who ends one need not: then a sweep
-- finds the row, once, and sets it right. So it costs by what was locked since
-- the last sweep, and by what it has to do, not by what is there.
--
-- The sweep of layout 1, with other parameters, is left to the programs of then.
CREATE OR REPLACE FUNCTION {schema}.sweep(
  in_idle bigint, in_most int, OUT dropped bigint, OUT deleted bigint, OUT more boolean
) LANGUAGE plpgsql VOLATILE
-- However little the server knows of the table yet.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $fn$
DECLARE
  name  text;
  r     record;
  kept  jsonb;
  gone  int;
  clock bigint := {schema}.clock();
  left_ int := in_most;
  due_  bigint;
BEGIN
  IF NOT {schema}.whole() THEN
    PERFORM {schema}.refuse();
  END IF;
  dropped := 0;
  deleted := 0;
  more := false;
  FOR name IN
    (SELECT l.resource FROM {schema}.locks l WHERE l.due BETWEEN 0 AND clock ORDER BY l.due)
    UNION ALL
    (SELECT l.resource FROM {schema}.locks l WHERE l.due BETWEEN in_idle - clock AND -1 AND l.watched <= clock ORDER BY l.due)
  LOOP
    IF left_ = 0 THEN
      more := true;
      EXIT;
    END IF;
    SELECT l.holds, l.token, l.touched, l.watched, l.due INTO r
      FROM {schema}.locks l WHERE l.resource = name FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN NOT FOUND OR NOT {schema}.sound(r.holds);
    clock := {schema}.clock();
    IF r.holds = '[]' AND r.touched <= clock - in_idle AND r.token <= clock - in_idle AND r.watched <= clock THEN
      DELETE FROM {schema}.locks l WHERE l.resource = name;
      IF NOT FOUND THEN
        PERFORM {schema}.unchanged(name);
      END IF;
      deleted := deleted + 1;
      left_ := left_ - 1;
      CONTINUE;
    END IF;
    gone := 0;
    due_ := {never};
    kept := r.holds || '[]'; -- unpacked
    FOR i IN REVERSE jsonb_array_length(kept) - 1 .. 0 LOOP
      IF {schema}.blocks(kept->i, clock) THEN
        due_ := least(due_, {schema}.over(kept->i));
      ELSE
        kept := kept - i;
        gone := gone + 1;
      END IF;
    END LOOP;
    IF gone > 0 THEN
      r.touched := greatest(r.touched + 1, clock);
    END IF;
    IF kept = '[]' THEN
      due_ := -greatest(r.touched, r.token);
    END IF;
    CONTINUE WHEN gone = 0 AND due_ = r.due;
    UPDATE {schema}.locks l SET holds = kept, touched = r.touched, due = due_ WHERE l.resource = name;
    IF NOT FOUND THEN
      PERFORM {schema}.unchanged(name);
    END IF;
    left_ := left_ - 1;
    dropped := dropped + gone;
    IF gone > 0 AND r.watched > clock THEN
      PERFORM pg_notify({channel}, name);
    END IF;
  END LOOP;
END
$fn$;
