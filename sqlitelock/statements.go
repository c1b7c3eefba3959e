package sqlitelock

import _ "embed"

// Each statement is a file in sql; values are bound, never spliced in.
var (
	//go:embed sql/schema.sql
	schemaSQL string
	//go:embed sql/inspect.sql
	inspectSQL string
	//go:embed sql/meta.sql
	metaSQL string
	//go:embed sql/newest.sql
	newestSQL string
	//go:embed sql/anchor.sql
	anchorSQL string
	//go:embed sql/floor.sql
	floorSQL string
	//go:embed sql/load.sql
	loadSQL string
	//go:embed sql/load_all.sql
	loadAllSQL string
	//go:embed sql/scan.sql
	scanSQL string
	//go:embed sql/scan_listed.sql
	scanListedSQL string
	//go:embed sql/insert.sql
	insertSQL string
	//go:embed sql/update.sql
	updateSQL string
	//go:embed sql/update_listed.sql
	updateListedSQL string
	//go:embed sql/delete.sql
	deleteSQL string
	//go:embed sql/unlist.sql
	unlistSQL string
	//go:embed sql/freed.sql
	freedSQL string
)

const (
	beginSQL       = "BEGIN IMMEDIATE"
	commitSQL      = "COMMIT"
	walSQL         = "PRAGMA journal_mode = WAL"
	dataVersionSQL = "PRAGMA data_version"
)
