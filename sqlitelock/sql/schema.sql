-- One row per resource. holds is the JSON of model.EncodeHolds, NULL for none.
-- touched rises with every change. freed is the touched of the last change that
-- made the resource worth another try, 0 if none did: it only rises, too, also
-- across deletion.
--
-- listed is 1 for all that have holds, so that listing holds does not read a
-- million idle rows. A release leaves it, else it and the next acquire would each
-- write a page more; a sweep clears it, and finds the row by the index idle then.
CREATE TABLE resources (
    resource TEXT NOT NULL PRIMARY KEY,
    touched  INTEGER NOT NULL,
    token    INTEGER NOT NULL,
    freed    INTEGER NOT NULL DEFAULT 0,
    listed   INTEGER,
    holds    TEXT,
    CHECK (holds IS NULL OR listed IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX listed ON resources (resource) WHERE listed IS NOT NULL;

CREATE INDEX idle ON resources (touched, resource) WHERE listed IS NULL;

-- One row. The store's clock is base plus the time since the boot that boot
-- names. floor is the highest token or version of any record ever deleted.
CREATE TABLE meta (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    floor INTEGER NOT NULL,
    boot  TEXT NOT NULL,
    base  INTEGER NOT NULL
) STRICT;

INSERT INTO meta (id, floor, boot, base) VALUES (1, 0, '', 0);

-- A trigger, so that no way of deleting a row can forget it, not even by hand.
-- What no record can have, a damaged row had: it must not lift the clock.
CREATE TRIGGER forget AFTER DELETE ON resources
WHEN max(old.token, old.touched) < 9007199254740992
BEGIN
    UPDATE meta SET floor = max(floor, old.token, old.touched);
END;

PRAGMA application_id = 0x484f4c44;
PRAGMA user_version = 1;
