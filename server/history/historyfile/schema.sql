-- What is missing is made at each start.
PRAGMA application_id = 0x48464869;
PRAGMA user_version = 1;

-- Times are microseconds since 1970, durations are microseconds.
CREATE TABLE IF NOT EXISTS events (
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
CREATE INDEX IF NOT EXISTS events_of_resource ON events (resource, number);
CREATE INDEX IF NOT EXISTS events_by_time ON events (at);
CREATE INDEX IF NOT EXISTS losses ON events (at, number) WHERE loss = 1;

-- The holds of which there is no end, each with the number of the event with which it began.
CREATE TABLE IF NOT EXISTS holds (
    number   INTEGER PRIMARY KEY,
    resource TEXT    NOT NULL,
    hash     BLOB    NOT NULL,
    left     INTEGER NOT NULL, -- when it began; -1: no end, -2: not known
    UNIQUE (resource, hash)
) STRICT;

-- One row: when what is kept begins.
CREATE TABLE IF NOT EXISTS kept (since INTEGER NOT NULL) STRICT;

-- When the history did not see all, in microseconds since 1970.
CREATE TABLE IF NOT EXISTS gaps (began INTEGER NOT NULL, ended INTEGER NOT NULL, cause TEXT NOT NULL) STRICT;

-- One row: until when it has all but the gaps.
CREATE TABLE IF NOT EXISTS until (at INTEGER NOT NULL) STRICT;
