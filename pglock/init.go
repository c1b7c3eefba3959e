package pglock

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// found describes the server and the schema.
type found struct {
	Server            int
	Encoding          string
	ClientEncoding    string
	Standby, ReadOnly bool
	Session           uint32  // the server's process that answered
	Table             bool    // there is one
	Comment           *string // on it
	SchemaUse         *bool   // the role's rights
	TableUse          *bool
	FunctionUse       *bool
	RowSecurity       *bool // policies apply to the role
}

func (f *found) read(c *columns) {
	f.Server, f.Encoding, f.ClientEncoding = c.int(), c.text(), c.text()
	f.Standby, f.ReadOnly, f.Session = c.bool(), c.bool(), uint32(c.int())
	f.Table, f.Comment, f.SchemaUse = c.bool(), c.textOrNull(), c.boolOrNull()
	f.TableUse, f.FunctionUse, f.RowSecurity = c.boolOrNull(), c.boolOrNull(), c.boolOrNull()
}

const look = `
SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_setting('server_encoding'), pg_catalog.pg_client_encoding()::text,
  pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')::boolean, pg_catalog.pg_backend_pid(),
  c.oid IS NOT NULL, pg_catalog.obj_description(c.oid, 'pg_class'), pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE'),
  pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_table_privilege(c.oid, 'INSERT')
    AND pg_catalog.has_table_privilege(c.oid, 'UPDATE') AND pg_catalog.has_table_privilege(c.oid, 'DELETE'),
  (SELECT pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'EXECUTE')) FROM pg_catalog.pg_proc p WHERE p.pronamespace = c.relnamespace),
  pg_catalog.row_security_active(c.oid)
FROM (VALUES (1)) AS one (row)
LEFT JOIN pg_catalog.pg_class c ON c.relname = 'locks' AND c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = $1)`

// oldest is the first version of PostgreSQL that the store supports.
const oldest = 14

// Init implements driver.Initializer: one SELECT, if the schema is there. Else it is
// installed, which the first of several clients does while the others wait.
func (s *Store) Init(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	for installed := false; ; installed = true {
		f, err := s.look(ctx)
		if err == nil {
			err = s.usable(f)
		}
		if err != nil || f.Table {
			return err
		}
		if installed {
			return s.unusable("it was installed, and is not there", nil)
		}
		if err := s.install(ctx); err != nil {
			return err
		}
	}
}

// look uses the connection for renewals, so that it is open when they are due: the
// server might refuse a new one then.
func (s *Store) look(ctx context.Context) (f found, err error) {
	var session uint32
	from := func(ctx context.Context) (conn, error) {
		on, err := s.fromOwn(ctx)
		if err == nil {
			session = on.raw().PID()
		}
		return on, err
	}
	for try := 0; ; try++ {
		answer, err := ask[found](ctx, s, from, statement{sql: look}, s.schema)
		if err != nil {
			// The connections may have been cut since they were used.
			if try < ownConns && ctx.Err() == nil && lostConnection(err) {
				continue
			}
			return found{}, err
		}
		for _, f = range answer { // one
			if f.Session != session {
				// There is a proxy in between. It may pass each statement to another
				// session, where nothing is prepared.
				s.bare.Store(true)
			}
		}
		return f, nil
	}
}

// usable returns why the server or the schema cannot be used.
func (s *Store) usable(f found) error {
	there, ours := layoutOf(f.Comment)
	switch {
	case f.Server < oldest*10000:
		return s.unusable(fmt.Sprintf("the server is PostgreSQL %d, and must be %d or newer", f.Server/10000, oldest), nil)
	case f.Encoding != "UTF8":
		return s.unusable(fmt.Sprintf("the encoding of the database is %s, and must be UTF8 so that it can store all names", f.Encoding), nil)
	case f.ClientEncoding != "UTF8":
		return s.unusable(needsUTF8, nil)
	case f.Standby, f.ReadOnly:
		return s.passing(readOnlyNow, nil)
	case !f.Table: // it is to be installed
	case !ours:
		return s.unusable(fmt.Sprintf("it has a table \"locks\" that does not say that it is Holdfast's: use another schema, "+
			"or if it is, COMMENT ON TABLE %s.locks IS '%s%d'", quoted(s.schema), layoutComment, layout), nil)
	case there > layout:
		return s.unusable(fmt.Sprintf("its layout is %d, made by a newer version of Holdfast than this one, which has layout %d: update this program", there, layout), nil)
	case there < layout:
		return s.unusable(fmt.Sprintf("its layout is %d, made by an older version of Holdfast than this one, which needs %d: use another schema, "+
			"or stop all programs that use this one and DROP SCHEMA %s CASCADE", there, layout, quoted(s.schema)), nil)
	case denied(f.SchemaUse), denied(f.TableUse), denied(f.FunctionUse):
		return s.unusable("the role lacks a right: "+s.grants(), nil)
	case f.RowSecurity != nil && *f.RowSecurity:
		return s.unusable(fmt.Sprintf("row-level security applies to the role, which may not see or change all rows: "+
			"ALTER TABLE %s.locks DISABLE ROW LEVEL SECURITY", quoted(s.schema)), nil)
	}
	return nil
}

func denied(right *bool) bool { return right != nil && !*right }

// layoutOf reads what the comment on a table says, if it is ours.
func layoutOf(comment *string) (n int, ours bool) {
	if comment == nil {
		return 0, false
	}
	number, ours := strings.CutPrefix(*comment, layoutComment)
	n, err := strconv.Atoi(number)
	return n, ours && err == nil
}

// install runs the SQL of Schema, as one transaction. Clients that do so at the same
// time wait for one another, and then run it again, which changes nothing.
func (s *Store) install(ctx context.Context) error {
	text, err := Schema(s.schema)
	if err != nil {
		return err
	}
	// Read committed: after the wait for other clients it must see their changes.
	on, err := s.pool.acquire(ctx)
	if err == nil {
		err = run(ctx, on, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;\n"+text+"\nCOMMIT")
		on.release() // after an error within the transaction this closes it
	}
	if lacksRight(err) {
		return s.unusable("it is not installed, and the role has no right to install it: "+
			"let a user with that right run the SQL that "+s.printed()+" prints, and "+s.grants(), err)
	}
	return s.wrap(foreign.Error(ctx, err))
}
