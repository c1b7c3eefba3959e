package sqlitelock

import _ "embed"

//go:embed sql/schema.sql
var schemaSQL string

// Values are bound, never spliced in. Changes are made between BEGIN IMMEDIATE and
// COMMIT, on the row as it was just read there.
const (
	beginSQL    = "BEGIN IMMEDIATE"
	commitSQL   = "COMMIT"
	rollbackSQL = "ROLLBACK"

	idleIndexSQL   = "CREATE INDEX IF NOT EXISTS idle ON resources (touched, resource) WHERE listed IS NULL"
	walSQL         = "PRAGMA journal_mode = WAL"
	dataVersionSQL = "PRAGMA data_version"
	keeperSQL      = "PRAGMA busy_timeout = 20"
	passiveSQL     = "PRAGMA wal_checkpoint(PASSIVE)"
	restartSQL     = "PRAGMA wal_checkpoint(RESTART)"

	inspectSQL = `SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id AS a, pragma_user_version AS v`
	metaSQL   = "SELECT boot, base, floor FROM meta"
	anchorSQL = "UPDATE meta SET boot = ?, base = ?"
	newestSQL = "SELECT coalesce(max(touched), 0) FROM resources WHERE listed IS NOT NULL"
	floorSQL  = "SELECT floor FROM meta"

	loadSQL = "SELECT touched, listed, token, holds, resource FROM resources WHERE resource = ?"

	insertSQL = `INSERT INTO resources (touched, token, freed, holds, resource, listed)
		VALUES (?, ?, ?, ?, ?, 1)`
	// updateSQL is for a row that is listed, or has no holds to list: to name
	// listed would write the index anew.
	updateSQL = `UPDATE resources SET touched = ?, token = ?, freed = max(freed, ?), holds = ?
		WHERE resource = ?`
	updateListedSQL = `UPDATE resources SET touched = ?, token = ?, freed = max(freed, ?), holds = ?, listed = 1
		WHERE resource = ?`
	deleteSQL = "DELETE FROM resources WHERE resource = ?"

	// A page of the rows that are listed.
	listedSQL = `SELECT touched, listed, token, holds, resource FROM resources INDEXED BY listed
		WHERE resource > ? AND listed IS NOT NULL
		ORDER BY resource LIMIT ?`
	// A page of the rows that are not, by their last change.
	idleSQL = `SELECT touched, resource FROM resources INDEXED BY idle
		WHERE listed IS NULL AND touched <= ? AND (touched, resource) > (?, ?)
		ORDER BY touched, resource LIMIT ?`
	unlistSQL = `UPDATE resources INDEXED BY listed SET listed = NULL
		WHERE resource > ? AND resource <= ? AND listed IS NOT NULL AND holds IS NULL AND touched < ?`

	freedSQL = `SELECT r.resource, r.freed
		FROM json_each(?) AS j JOIN resources AS r ON r.resource = j.value`
)
