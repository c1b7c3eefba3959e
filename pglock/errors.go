package pglock

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
	protocolViolation    = "08P01" // of poolers: whatever they have no other code for
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

// lasting are the answers that stay the same until somebody changes something. Servers and
// poolers give most codes for passing causes, too, so a code alone is rarely enough:
//
//	code    also says                                            certain with
//	28P01   -                                                    the code: for passwords that the server itself keeps
//	28000   LDAP, PAM and RADIUS do not answer; a pooler cannot  the role is not there, or may not log in
//	        look up the user; pg_hba.conf of a server that is
//	        set up or takes over
//	3D000   a pooler has no route                                the database is not there
//	42501   the server shuts down, or is upgraded                a statement is refused, or the database
//	42704   -                                                    the parameter is unknown
//	08P01   a pooler is full, or cannot log in                   the pooler does not pass the parameter on
//	3F000, 42883, 42P01 (of statements)                          the code: the store names what its schema has
//
// routine is where PostgreSQL made the error. It is the same in all languages, and poolers
// send none.
var lasting = []struct {
	code, text, routine, why string
}{
	{badPassword, "", "", "the server refuses the user"},
	{badAuthorization, "role \".*\" (does not exist|is not permitted to log in)", "InitializeSessionUserId", "the server refuses the user"},
	{noDatabase, "database \".*\" does not exist|no such database", "InitPostgres", "there is no such database"},
	{noSetting, "unrecognized configuration parameter", "find_option", refusesParameter},
	{protocolViolation, "(?i)unsupported startup parameter", "", refusesParameter},
}

const refusesParameter = "the server refuses a parameter (pgx passes unknown parameters of a URL to the server)"

// refused returns why nobody can connect until somebody changes something, or "". A pooler
// has often accepted the connection by then.
func refused(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	for _, l := range lasting {
		if e.Code != l.code {
			continue
		}
		if says, err := regexp.MatchString(l.text, e.Message); says && err == nil || l.routine != "" && e.Routine == l.routine {
			return l.why
		}
	}
	return ""
}

// lacksRight: the role may not do it. At connect, the code also says that the server shuts
// down or is upgraded.
func lacksRight(err error) bool {
	var e *pgconn.PgError
	return hasCode(err, noPrivilege) && errors.As(err, &e) &&
		(!isRefused(err) || e.Routine == "CheckMyDatabase" || strings.HasPrefix(e.Message, "permission denied"))
}

// wrap names the schema, and says how to fix errors. Only those that certainly do not pass
// by themselves are ErrUnusable. pgx shows no password in the errors of connections and
// statements.
func (s *Store) wrap(err error) error {
	switch why := refused(err); {
	case err == nil, errors.Is(err, driver.ErrInvalid):
		return err
	case why != "":
		return s.unusable(why, err)
	case hasCode(err, readOnly):
		return s.passing(readOnlyNow, err)
	case hasCode(err, notStored):
		return s.unusable("row-level security, a trigger or a rule keeps rows from the role: "+
			"disable it for the table, or use the role that owns it", err)
	case hasCode(err, notUTF8):
		return s.unusable(needsUTF8, err)
	case hasCode(err, noSchema, noFunction, noTable) && !isRefused(err):
		return s.unusable("it is not installed, or in part: start a program with a role that may create it, or run the SQL that "+s.printed()+" prints", err)
	case lacksRight(err):
		return s.unusable("the role lacks a right: "+s.grants(), err)
	case hasCode(err, badAuthorization):
		return s.passing("the server refuses the user, which may pass while a server takes over", err)
	case hasCode(err, diskFull):
		// What fills it may be the temporary file of one statement.
		return s.passing("the server's disk is full", err)
	case hasCode(err, lockTimeout):
		return fmt.Errorf("PostgreSQL schema %s: %w: %w", s.schema, ErrBusy, err)
	case hasCode(err, queryCanceled):
		return s.passing("the server gave up (see statement_timeout)", err)
	}
	return fmt.Errorf("PostgreSQL schema %s: %w", s.schema, err)
}

// readOnlyNow: another server may take over at any time, or this one, also where one name
// stands for several. Some services make a server read-only while it grows its disk.
const readOnlyNow = "the server is read-only: a standby, or default_transaction_read_only is on; " +
	"name all hosts in the URL, with target_session_attrs=read-write, or clear the setting"

// passing returns an error that says why. It may pass by itself.
func (s *Store) passing(why string, err error) error {
	if err == nil {
		return fmt.Errorf("PostgreSQL schema %s: %s", s.schema, why)
	}
	return fmt.Errorf("PostgreSQL schema %s: %s: %w", s.schema, why, err)
}

func (s *Store) unusable(why string, err error) error {
	return fmt.Errorf("%w: %w", driver.ErrUnusable, s.passing(why, err))
}

// printed is the command that prints the SQL of Schema.
func (s *Store) printed() string { return "holdfast schema 'postgres:///?schema=" + s.schema + "'" }

func (s *Store) grants() string {
	return fmt.Sprintf("let the owner run GRANT USAGE ON SCHEMA %[1]s TO the role, GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.locks TO the role, "+
		"and GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %[1]s TO the role",
		quoted(s.schema))
}
