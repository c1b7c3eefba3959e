-- What is missing is made at each start.
PRAGMA application_id = 0x48464869;
PRAGMA user_version = 2;

-- Times are microseconds since 1970, NULL if they are not known.
CREATE TABLE IF NOT EXISTS holds (
    number      INTEGER PRIMARY KEY,
    resource    TEXT    NOT NULL,
    ref         TEXT    NOT NULL,
    token       INTEGER NOT NULL,
    mode        TEXT    NOT NULL,
    most        INTEGER NOT NULL, -- the limit of a shared hold
    owner       TEXT    NOT NULL,
    host        TEXT    NOT NULL,
    comment     TEXT    NOT NULL,
    began_after INTEGER,
    began_by    INTEGER NOT NULL,
    ended_after INTEGER,
    ended_by    INTEGER,          -- NULL: it has no end
    how         TEXT    NOT NULL,
    forced_by   TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    caller      TEXT    NOT NULL,
    hash        BLOB    NOT NULL,
    bytes       INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS holds_of_resource ON holds (resource, number);
CREATE INDEX IF NOT EXISTS holds_of_share ON holds (caller, resource, number);
CREATE INDEX IF NOT EXISTS holds_by_end ON holds (ended_by);
CREATE INDEX IF NOT EXISTS losses ON holds (ended_by) WHERE how IN ('forced', 'lost');

-- How many bytes of holds each caller has, and each of its resources; '' is all of them.
CREATE TABLE IF NOT EXISTS shares (
    caller   TEXT    NOT NULL,
    resource TEXT    NOT NULL,
    bytes    INTEGER NOT NULL,
    PRIMARY KEY (caller, resource)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS callers_by_bytes ON shares (bytes) WHERE resource = '';
CREATE INDEX IF NOT EXISTS resources_by_bytes ON shares (caller, bytes) WHERE resource <> '';
CREATE TRIGGER IF NOT EXISTS hold_added AFTER INSERT ON holds BEGIN
    INSERT INTO shares VALUES (new.caller, '', new.bytes), (new.caller, new.resource, new.bytes)
        ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER IF NOT EXISTS hold_removed AFTER DELETE ON holds BEGIN
    UPDATE shares SET bytes = bytes - old.bytes WHERE caller = old.caller AND resource IN ('', old.resource);
    DELETE FROM shares WHERE caller = old.caller AND resource IN ('', old.resource) AND bytes = 0;
    UPDATE kept SET removed = max(coalesce(removed, 0), old.began_by);
END;

-- One row: when the history begins, by when some holds began that were removed, when the last look began that
-- is in it, and the gaps as JSON.
CREATE TABLE IF NOT EXISTS kept (since INTEGER NOT NULL, removed INTEGER, looked INTEGER, gaps TEXT NOT NULL) STRICT;
INSERT INTO kept (since, gaps) SELECT ?, '[]' WHERE NOT EXISTS (SELECT * FROM kept);
