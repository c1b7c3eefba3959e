package sqlitelock

// schemaSQL creates the schema in an empty file. Its application_id and user_version are
// applicationID and schemaVersion.
//
// resources has one row per resource. holds is the JSON of model.EncodeHolds, places that
// of model.EncodePlaces, each NULL if empty. touched rises with every change. freed is
// the touched of the last change that made another try worthwhile, 0 if there was none.
// It only rises, even if the row is deleted in between.
//
// listed is 1 for every row with holds or places, so that listing holds does not read a
// million idle rows. A release leaves it as it is: otherwise the release and the next
// acquire would each write another page. A sweep clears it, and from then on finds the
// row by the index idle.
//
// meta has one row. The store's clock is base plus the time since the boot with the ID
// boot. floor is the highest token or version of all deleted records. A trigger raises
// it, so that it rises however a row is deleted, even by hand. Numbers in a damaged row
// that no record can have do not raise it: they would move the clock.
const schemaSQL = `
CREATE TABLE resources (
	resource TEXT NOT NULL PRIMARY KEY,
	touched  INTEGER NOT NULL,
	token    INTEGER NOT NULL,
	freed    INTEGER NOT NULL DEFAULT 0,
	listed   INTEGER,
	holds    TEXT,
	places   TEXT CHECK (places IS NULL OR listed IS NOT NULL),
	CHECK (holds IS NULL OR listed IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX listed ON resources (resource) WHERE listed IS NOT NULL;
CREATE INDEX idle ON resources (touched, resource) WHERE listed IS NULL;
CREATE TABLE meta (
	id    INTEGER PRIMARY KEY CHECK (id = 1),
	floor INTEGER NOT NULL,
	boot  TEXT NOT NULL,
	base  INTEGER NOT NULL
) STRICT;
INSERT INTO meta (id, floor, boot, base) VALUES (1, 0, '', 0);
CREATE TRIGGER forget AFTER DELETE ON resources
WHEN max(old.token, old.touched) < 9007199254740992
BEGIN
	UPDATE meta SET floor = max(floor, old.token, old.touched);
END;
PRAGMA application_id = 0x484f4c44;
PRAGMA user_version = 2;
`

// Values are bound as parameters. Each change is made between BEGIN IMMEDIATE and COMMIT,
// on the row as it was read there.
const (
	beginSQL    = "BEGIN IMMEDIATE"
	commitSQL   = "COMMIT"
	rollbackSQL = "ROLLBACK"

	walSQL         = "PRAGMA journal_mode = WAL"
	passiveSQL     = "PRAGMA wal_checkpoint(PASSIVE)"
	restartSQL     = "PRAGMA wal_checkpoint(RESTART)"
	dataVersionSQL = "PRAGMA data_version"

	inspectSQL = `SELECT a.application_id, v.user_version, count(s.name)
		FROM pragma_application_id AS a, pragma_user_version AS v LEFT JOIN sqlite_schema AS s`
	// clockSQL selects whether the boot is ?1, and whether it may be the same boot under
	// another ID: one of the two IDs is of a container, and the clock of the file, ?2
	// after the boot, is not behind the changes in the file. As in the trigger, numbers
	// that no record can have do not count.
	clockSQL = `SELECT boot = ?1,
		boot <> '' AND (boot LIKE 'container %' OR ?1 LIKE 'container %') AND base + ?2 >= max(floor,
			(SELECT coalesce(max(touched), 0) FROM resources WHERE listed IS NOT NULL AND touched < 9007199254740992),
			(SELECT coalesce(max(touched), 0) FROM resources WHERE listed IS NULL AND touched < 9007199254740992)),
		base, floor FROM meta`
	anchorSQL = "UPDATE meta SET boot = ?, base = ?"
	newestSQL = `SELECT coalesce(max(touched), 0) FROM resources
		WHERE listed IS NOT NULL AND touched < 9007199254740992`
	floorSQL = "SELECT floor FROM meta"

	loadSQL = "SELECT touched, listed, token, holds, resource, places FROM resources WHERE resource = ?"
	// The update of putSQL does not set listed: that would write the index again.
	putSQL = `INSERT INTO resources (touched, token, freed, holds, places, resource, listed) VALUES (?, ?, ?, ?, ?, ?, 1)
		ON CONFLICT DO UPDATE SET touched = excluded.touched, token = excluded.token,
		freed = max(freed, excluded.freed), holds = excluded.holds, places = excluded.places`
	listSQL   = "UPDATE resources SET listed = 1 WHERE resource = ?"
	deleteSQL = "DELETE FROM resources WHERE resource = ?"

	// listedSQL and idleSQL select a page of listed and of unlisted rows. ?1 is the
	// latest touched of the unlisted rows. ?2 and ?3 are touched and resource of the last
	// row of the page before. ?4 is the size of the page.
	listedSQL = `SELECT touched, listed, token, holds, resource, places FROM resources INDEXED BY listed
		WHERE listed IS NOT NULL AND resource > ?3
		ORDER BY resource LIMIT ?4`
	idleSQL = `SELECT touched, listed, token, holds, resource, places FROM resources INDEXED BY idle
		WHERE listed IS NULL AND touched <= ?1 AND (touched, resource) > (?2, ?3)
		ORDER BY touched, resource LIMIT ?4`
	unlistSQL = `UPDATE resources SET listed = NULL
		WHERE resource IN (SELECT value FROM json_each(?)) AND holds IS NULL AND places IS NULL AND touched < ?`

	freedSQL = `SELECT r.resource, r.freed
		FROM json_each(?) AS j JOIN resources AS r ON r.resource = j.value`
)
