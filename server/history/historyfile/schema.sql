-- What is missing is made at each start.
PRAGMA application_id = 0x48464869;
PRAGMA user_version = 3;

-- A hold is the JSON of history.Hold. What is beside it chooses and bounds. Times are microseconds since 1970.
CREATE TABLE IF NOT EXISTS holds (
    number   INTEGER PRIMARY KEY,
    share    TEXT    NOT NULL,
    resource TEXT    NOT NULL,
    began    INTEGER NOT NULL,
    ended    INTEGER,          -- NULL: it has no end
    how      TEXT    NOT NULL,
    hold     TEXT    NOT NULL,
    bytes    INTEGER NOT NULL  -- about, when it was added
) STRICT;
CREATE INDEX IF NOT EXISTS holds_of_resource ON holds (resource, number);
CREATE INDEX IF NOT EXISTS holds_of_share ON holds (share, resource, number);
CREATE INDEX IF NOT EXISTS holds_by_end ON holds (ended);
CREATE INDEX IF NOT EXISTS losses ON holds (ended) WHERE how IN ('forced', 'lost');

-- How many bytes of holds are in each share, and of each resource in it; '' is all of them.
CREATE TABLE IF NOT EXISTS shares (
    share    TEXT    NOT NULL,
    resource TEXT    NOT NULL,
    bytes    INTEGER NOT NULL,
    PRIMARY KEY (share, resource)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS shares_by_bytes ON shares (bytes) WHERE resource = '';
CREATE INDEX IF NOT EXISTS resources_by_bytes ON shares (share, bytes) WHERE resource <> '';
CREATE TRIGGER IF NOT EXISTS hold_added AFTER INSERT ON holds BEGIN
    INSERT INTO shares VALUES (new.share, '', new.bytes), (new.share, new.resource, new.bytes)
        ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER IF NOT EXISTS hold_removed AFTER DELETE ON holds BEGIN
    UPDATE shares SET bytes = bytes - old.bytes WHERE share = old.share AND resource IN ('', old.resource);
    DELETE FROM shares WHERE share = old.share AND resource IN ('', old.resource) AND bytes = 0;
    UPDATE kept SET removed = max(removed, old.began);
END;

-- One row: when the history begins, by when some holds began that were removed, and history.Looks as JSON.
CREATE TABLE IF NOT EXISTS kept (since INTEGER NOT NULL, removed INTEGER NOT NULL, looks TEXT NOT NULL) STRICT;
INSERT INTO kept SELECT ?, 0, '{}' WHERE NOT EXISTS (SELECT * FROM kept);
