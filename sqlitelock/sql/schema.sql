-- One row per resource. holds is the JSON of model.EncodeHolds, NULL for none.
-- touched is the version of the record. freed is the version that last made the
-- resource worth another try, 0 if none did: like touched it only rises, also
-- across deletion.
CREATE TABLE resources (
    resource TEXT NOT NULL PRIMARY KEY,
    touched  INTEGER NOT NULL,
    token    INTEGER NOT NULL,
    freed    INTEGER NOT NULL,
    holds    TEXT
) STRICT, WITHOUT ROWID;

-- So that listing holds does not read the records of idle resources.
CREATE INDEX occupied ON resources (resource) WHERE holds IS NOT NULL;

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
