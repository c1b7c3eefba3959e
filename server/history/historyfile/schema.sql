PRAGMA application_id = 0x48464869;
PRAGMA user_version = 1;

-- Times are microseconds since 1970, durations are microseconds.
CREATE TABLE events (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL,
    within      INTEGER, -- NULL: not known
    kind        TEXT    NOT NULL,
    loss        INTEGER NOT NULL,
    resource    TEXT    NOT NULL,
    ref         TEXT    NOT NULL,
    token       INTEGER NOT NULL,
    mode        TEXT    NOT NULL,
    most        INTEGER NOT NULL, -- the limit of a shared hold
    owner       TEXT    NOT NULL,
    host        TEXT    NOT NULL,
    comment     TEXT    NOT NULL,
    held        INTEGER, -- NULL: not known
    renewed_ago INTEGER, -- NULL: not known
    caller      TEXT    NOT NULL,
    reason      TEXT    NOT NULL
) STRICT;
CREATE INDEX events_of_resource ON events (resource, number);
CREATE INDEX events_by_time ON events (at);
CREATE INDEX losses ON events (at, number) WHERE loss = 1;

-- The holds of which there is no end, each with the event with which it began.
CREATE TABLE open (
    resource TEXT    NOT NULL,
    ref      TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    PRIMARY KEY (resource, ref)
) STRICT, WITHOUT ROWID;

-- One row: when what is kept begins.
CREATE TABLE kept (since INTEGER NOT NULL) STRICT;
