package pglock

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/driver"
)

// unconnected is the error of a connection that the server refused, as pgx makes it.
type unconnected struct{ answer *pgconn.PgError }

func (u unconnected) Error() string   { return "failed to connect: " + u.answer.Error() }
func (u unconnected) Unwrap() []error { return []error{&pgconn.ConnectError{}, u.answer} }

// What certainly does not pass by itself is ErrUnusable, and says what to do; all else is
// unknown. Most codes have causes of both kinds.
func TestWrap(t *testing.T) {
	const connecting = true
	s := &Store{schema: "locks"}
	for name, c := range map[string]struct {
		code, message string
		connecting    bool
		routine       string
		unusable      bool
		says          string
	}{
		"HF001":                      {notStored, "", false, "", true, "row-level security"},
		"HF002":                      {notUTF8, "", false, "", true, "client_encoding"},
		"password":                   {badPassword, `password authentication failed for user "ada"`, connecting, "auth_failed", true, "refuses the user"},
		"password, by a pooler":      {badPassword, "SASL authentication failed", connecting, "", true, "refuses the user"},
		"role":                       {badAuthorization, `role "ada" does not exist`, connecting, "InitializeSessionUserId", true, "refuses the user"},
		"role, in German":            {badAuthorization, "Rolle »ada« existiert nicht", connecting, "InitializeSessionUserId", true, "refuses the user"},
		"role, behind a pooler":      {badAuthorization, `role "ada" does not exist`, false, "", true, "refuses the user"},
		"role may not":               {badAuthorization, `role "ada" is not permitted to log in`, connecting, "", true, "refuses the user"},
		"host":                       {badAuthorization, `no pg_hba.conf entry for host "10.0.0.1", user "ada"`, connecting, "ClientAuthentication", false, "takes over"},
		"host, rejected":             {badAuthorization, `pg_hba.conf rejects connection for host "10.0.0.1"`, connecting, "ClientAuthentication", false, "takes over"},
		"LDAP":                       {badAuthorization, `LDAP authentication failed for user "ada"`, connecting, "auth_failed", false, "refuses the user"},
		"PAM":                        {badAuthorization, `PAM authentication failed for user "ada"`, connecting, "auth_failed", false, "refuses the user"},
		"auth query of Odyssey":      {badAuthorization, "odyssey: c1: failed to make auth query", connecting, "", false, "refuses the user"},
		"database":                   {noDatabase, `database "x" does not exist`, connecting, "InitPostgres", true, "no such database"},
		"database, in German":        {noDatabase, "Datenbank »x« existiert nicht", connecting, "InitPostgres", true, "no such database"},
		"database of PgBouncer":      {noDatabase, "no such database: x", connecting, "", true, "no such database"},
		"route of Odyssey":           {noDatabase, "odyssey: c1: route for 'x.ada' is not found", connecting, "", false, "route"},
		"schema":                     {noSchema, `schema "locks" does not exist`, false, "", true, "holdfast schema 'postgres:///?schema=locks'"},
		"function":                   {noFunction, "", false, "", true, "holdfast schema 'postgres:///?schema=locks'"},
		"table":                      {noTable, "", false, "", true, "holdfast schema 'postgres:///?schema=locks'"},
		"right":                      {noPrivilege, "permission denied for table locks", false, "aclcheck_error", true, `GRANT USAGE ON SCHEMA "locks"`},
		"right, in German":           {noPrivilege, "keine Berechtigung für Tabelle locks", false, "aclcheck_error", true, `GRANT USAGE`},
		"right to connect":           {noPrivilege, `permission denied for database "x"`, connecting, "CheckMyDatabase", true, "lacks a right"},
		"shutdown, before 15":        {noPrivilege, "must be superuser to connect during database shutdown", connecting, "InitPostgres", false, "shutdown"},
		"upgrade":                    {noPrivilege, "must be superuser to connect in binary upgrade mode", connecting, "InitPostgres", false, "upgrade"},
		"parameter":                  {noSetting, `unrecognized configuration parameter "shema"`, connecting, "find_option", true, "parameter"},
		"parameter, in German":       {noSetting, `unbekannter Konfigurationsparameter »shema«`, connecting, "find_option", true, "parameter"},
		"parameter of PgBouncer":     {protocolViolation, "unsupported startup parameter: shema", connecting, "", true, "parameter"},
		"parameter of old PgBouncer": {protocolViolation, "Unsupported startup parameter: shema", connecting, "", true, "parameter"},
		"options of PgBouncer":       {protocolViolation, "unsupported startup parameter in options: shema", connecting, "", true, "parameter"},
		"PgBouncer is full":          {protocolViolation, "no more connections allowed (max_client_conn)", connecting, "", false, "max_client_conn"},
		"PgBouncer is full, new":     {"53300", "no more connections allowed (max_client_conn)", connecting, "", false, "max_client_conn"},
		"PgBouncer waits":            {protocolViolation, "query_wait_timeout", false, "", false, "query_wait_timeout"},
		"PgBouncer has no server":    {protocolViolation, "server login has been failing, try again later", connecting, "", false, "try again"},
		"PgBouncer ends":             {protocolViolation, "pgbouncer is shutting down", connecting, "", false, "shutting down"},
		"PgBouncer's own database":   {protocolViolation, "bouncer config error", connecting, "", false, "config error"},
		"Odyssey":                    {protocolViolation, "odyssey: c1: bad startup packet", connecting, "", false, "packet"},
		"standby":                    {readOnly, "", false, "", false, "target_session_attrs=read-write"},
		"disk":                       {diskFull, "could not extend file", false, "", false, "disk is full"},
		"lock":                       {lockTimeout, "", false, "", false, "locked by another transaction"},
		"canceled":                   {queryCanceled, "", false, "", false, "statement_timeout"},
		"serialization":              {serializationFailure, "", false, "", false, "locks"},
		"shutdown":                   {"57P01", "terminating connection due to administrator command", false, "", false, "locks"}, // before the commit, or after
		"starts":                     {"57P03", "the database system is starting up", connecting, "", false, "locks"},
		"too many":                   {"53300", "sorry, too many clients already", connecting, "", false, "locks"},
		"database is being made":     {"55000", `database "x" is not currently accepting connections`, connecting, "", false, "locks"},
		"Supavisor":                  {"XX000", "Max client connections reached", connecting, "", false, "locks"},
	} {
		answer := &pgconn.PgError{Code: c.code, Message: c.message, Routine: c.routine}
		err := s.wrap(fmt.Errorf("in a connection: %w", answer))
		if c.connecting {
			err = s.wrap(unconnected{answer})
		}
		if errors.Is(err, driver.ErrUnusable) != c.unusable || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v; want unusable: %v, %q and the cause", name, err, c.unusable, c.says)
		}
		for _, definite := range []error{driver.ErrHeld, driver.ErrLost, driver.ErrDamaged, driver.ErrInvalid} {
			if errors.Is(err, definite) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Only what certainly was not done is sent again.
func TestTries(t *testing.T) {
	for code, again := range map[string]bool{
		serializationFailure: true, deadlockDetected: true, readOnly: true, lockTimeout: false, "57P01": false, "08006": false, queryCanceled: false,
	} {
		if (tries(&pgconn.PgError{Code: code}) > 1) != again {
			t.Errorf("%s: not %v", code, again)
		}
	}
	if tries(errors.New("unexpected EOF")) > 1 {
		t.Error("a lost connection would be repeated")
	}
}
