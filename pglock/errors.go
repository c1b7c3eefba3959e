package pglock

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/driver"
)

// SQLSTATE codes of the server.
const (
	readOnly             = "25006"
	planChanged          = "0A000" // among others
	noSuchStatement      = "26000"
	badAuthorization     = "28000"
	badPassword          = "28P01"
	noDatabase           = "3D000"
	noSchema             = "3F000"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	noPrivilege          = "42501"
	noFunction           = "42883"
	duplicateStatement   = "42P05"
	noTable              = "42P01"
	diskFull             = "53100"
	noSetting            = "42704"
	protocolViolation    = "08P01" // of PgBouncer: a setting that it does not pass on
	lockTimeout          = "55P03"
	queryCanceled        = "57014"
	notStored            = "HF001" // of the schema's functions
	notUTF8              = "HF002"
)

// ErrBusy says that another transaction kept the row of the resource locked, or installs
// the schema and does not end. Whether that transaction makes a hold is not known.
var ErrBusy = errors.New("locked by another transaction that does not end (look for it in pg_stat_activity)")

const needsUTF8 = "the server converts names from the client_encoding of the connection, so that others lock them by other names: " +
	"set client_encoding to UTF8 for the role, the database or in the URL"

func hasCode(err error, codes ...string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// isRefused: no connection was made.
func isRefused(err error) bool {
	var e *pgconn.ConnectError
	return errors.As(err, &e)
}

// lostConnection: there was a connection, and no answer of the server.
func lostConnection(err error) bool {
	var answered *pgconn.PgError
	return !isRefused(err) && !errors.As(err, &answered)
}

// failed: the server has answered that it cannot do it, for another reason than that the
// row is locked.
func failed(err error) bool {
	var answered *pgconn.PgError
	return !isRefused(err) && errors.As(err, &answered) && !hasCode(err, lockTimeout)
}

// wrap names the schema, and says how to fix errors that do not pass by themselves.
// pgx shows no password in the errors of connections and statements.
func (s *Store) wrap(err error) error {
	switch {
	case err == nil, errors.Is(err, driver.ErrInvalid):
		return err
	case hasCode(err, readOnly):
		// Usually this passes, for example when another server takes over. Init
		// returns ErrUnusable if the server is read-only from the start.
		return fmt.Errorf("PostgreSQL schema %s: it is read-only: a standby, or default_transaction_read_only is on; "+
			"name all hosts in the URL, with target_session_attrs=read-write, or clear the setting: %w", s.schema, err)
	case hasCode(err, notStored):
		return s.unusable("row-level security, a trigger or a rule keeps rows from the role: "+
			"disable it for the table, or use the role that owns it", err)
	case hasCode(err, notUTF8):
		return s.unusable(needsUTF8, err)
	case hasCode(err, badAuthorization, badPassword):
		return s.unusable("the server refuses the user", err)
	case isRefused(err) && hasCode(err, noSetting, protocolViolation):
		return s.unusable("the server refuses a parameter (pgx passes unknown parameters of a URL to the server)", err)
	case hasCode(err, noDatabase):
		return s.unusable("there is no such database", err)
	case hasCode(err, noSchema, noFunction, noTable):
		return s.unusable("it is not installed, or in part: call Init with a role that may create it, or run the SQL of pglock.Schema", err)
	case hasCode(err, noPrivilege):
		return s.unusable("the role lacks a right: "+s.grants(), err)
	case hasCode(err, diskFull):
		return s.unusable("the server's disk is full", err)
	case hasCode(err, lockTimeout):
		return fmt.Errorf("PostgreSQL schema %s: %w: %w", s.schema, ErrBusy, err)
	case hasCode(err, queryCanceled):
		return fmt.Errorf("PostgreSQL schema %s: the server gave up (see statement_timeout): %w", s.schema, err)
	}
	return fmt.Errorf("PostgreSQL schema %s: %w", s.schema, err)
}

func (s *Store) unusable(why string, err error) error {
	if err == nil {
		return fmt.Errorf("%w: PostgreSQL schema %s: %s", driver.ErrUnusable, s.schema, why)
	}
	return fmt.Errorf("%w: PostgreSQL schema %s: %s: %w", driver.ErrUnusable, s.schema, why, err)
}

func (s *Store) grants() string {
	return fmt.Sprintf("let the owner run GRANT USAGE ON SCHEMA %[1]s TO the role, GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.locks TO the role, "+
		"and GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %[1]s TO the role",
		quoted(s.schema))
}
