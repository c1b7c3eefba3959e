package pglock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// found is what the server says of itself and of the schema.
type found struct {
	server            int
	encoding          string
	standby, readOnly bool
	session           uint32  // the server's process that answered
	table             bool    // there is one
	comment           *string // on it
	schemaUse         *bool   // the role's rights
	tableUse          *bool
	functionUse       *bool
	rowSecurity       *bool // policies apply to the role
}

const look = `
SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
  pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, pg_backend_pid(),
  c.oid IS NOT NULL, obj_description(c.oid, 'pg_class'), has_schema_privilege(c.relnamespace, 'USAGE'),
  has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
    AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'),
  (SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE')) FROM pg_proc p WHERE p.pronamespace = c.relnamespace),
  row_security_active(c.oid)
FROM (VALUES (1)) AS one (row)
LEFT JOIN pg_class c ON c.relname = 'locks' AND c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = $1)`

// oldest is the first version of PostgreSQL that will do.
const oldest = 14

// Init implements driver.Initializer: one SELECT, if the schema is there. Else, or
// if its layout is an older one, it is installed, which the first of several
// clients does while the others wait.
func (s *Store) Init(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	f, err := s.look(ctx)
	for range ownConns { // these may have been cut since they were used
		if err == nil || ctx.Err() != nil || !lostConnection(err) {
			break
		}
		f, err = s.look(ctx)
	}
	if err != nil {
		return err
	}
	install, err := s.usable(f)
	if err != nil || !install {
		return err
	}
	if err := s.install(ctx); err != nil {
		return err
	}
	if f, err = s.look(ctx); err != nil {
		return err
	}
	if install, err = s.usable(f); install {
		return s.unusable("it was installed, and is not there", nil)
	}
	return err
}

// look asks over the connection that is for renewals, so that it is there when they
// come: the server might refuse another one then.
func (s *Store) look(ctx context.Context) (f found, err error) {
	err = s.askBare(ctx, s.fromOwn, look, []any{s.schema}, func(rows pgx.Rows) error {
		// A proxy between is known by a session that is not the connection's: it may
		// hand each statement to another session, and what is prepared is not there.
		if err := rows.Scan(&f.server, &f.encoding, &f.standby, &f.readOnly, &f.session,
			&f.table, &f.comment, &f.schemaUse, &f.tableUse, &f.functionUse, &f.rowSecurity); err != nil {
			return err
		}
		if f.session != rows.Conn().PgConn().PID() {
			s.bare.Store(true)
		}
		return nil
	})
	return f, err
}

// usable says why the schema cannot be used, or that it is to be installed first.
func (s *Store) usable(f found) (install bool, err error) {
	there, ours := layoutOf(f.comment)
	switch {
	case f.server < oldest*10000:
		return false, s.unusable(fmt.Sprintf("the server is PostgreSQL %d, and must be %d or newer", f.server/10000, oldest), nil)
	case f.encoding != "UTF8":
		return false, s.unusable(fmt.Sprintf("the encoding of the database is %s, and must be UTF8 for all names to fit in", f.encoding), nil)
	case f.standby:
		return false, s.unusable("the server is a standby: name all hosts in the URL, with target_session_attrs=read-write", nil)
	case f.readOnly:
		return false, s.unusable("default_transaction_read_only is on for the role or the database", nil)
	case !f.table:
		return true, nil
	case !ours:
		return false, s.unusable(fmt.Sprintf("it has a table \"locks\" that does not say that it is Holdfast's: use another schema, "+
			"or if it is, COMMENT ON TABLE %s.locks IS '%s%d'", quoted(s.schema), layoutComment, layout), nil)
	case there > layout:
		return false, s.unusable(fmt.Sprintf("its layout is %d, made by a newer version of Holdfast than this one, which knows %d: update this program", there, layout), nil)
	case there < layout:
		return true, nil
	case denied(f.schemaUse), denied(f.tableUse), denied(f.functionUse):
		return false, s.unusable("the role lacks a right: "+s.grants(), nil)
	case f.rowSecurity != nil && *f.rowSecurity:
		return false, s.unusable(fmt.Sprintf("row-level security applies to the role, which may not see or change all rows: "+
			"ALTER TABLE %s.locks DISABLE ROW LEVEL SECURITY", quoted(s.schema)), nil)
	}
	return false, nil
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

// Who changes a table waits until nobody uses it, and whoever would use it waits
// behind: renewals, too, of locks with the shortest TTL. So the server ends each try
// after 200 ms (see the SQL), and after each those who wait have the table for longer
// than that. It goes on for less than a Client gives Init, which is to say why not.
const (
	installFor   = 8 * time.Second
	tablePause   = 400 * time.Millisecond // at least, and three times as long at most
	installPause = 50 * time.Millisecond  // likewise, for those who wait for one another
)

// errInstalling: another program has the right to change the schema.
var errInstalling = errors.New("another program is changing it, or tries to")

// install runs the SQL of Schema. Others who do the same wait for one another, and
// may then run it again, which changes nothing.
func (s *Store) install(ctx context.Context) error {
	text, err := Schema(s.schema)
	if err != nil {
		return err
	}
	until := time.Now().Add(installFor)
	if end, ok := ctx.Deadline(); ok && end.Add(-time.Second).Before(until) {
		until = end.Add(-time.Second)
	}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
		if err := s.installAlone(ctx, tx, until); err != nil {
			return err
		}
		for {
			err := pgx.BeginFunc(ctx, tx, func(try pgx.Tx) error {
				_, err := try.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol)
				return err
			})
			if !hasCode(err, lockTimeout) || !pauseUntil(ctx, until, tablePause) {
				return err
			}
		}
	})
	if hasCode(err, noPrivilege) {
		return s.unusable("it is not installed, or is of an older version, and the role may not change that: "+
			"let somebody who may run the SQL of pglock.Schema, and "+s.grants(), err)
	}
	if hasCode(err, lockTimeout) || errors.Is(err, errInstalling) {
		return fmt.Errorf("PostgreSQL schema %s: it is of an older version, and cannot be changed while a transaction, a dump perhaps, uses the table: "+
			"start again when that has ended (pg_stat_activity shows it): %w", s.schema, err)
	}
	if ended := ctx.Err(); ended != nil && err != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return s.wrap(err)
}

// installAlone returns once nobody else installs this schema, until tx ends: if each
// of many programs tried to, they would together keep the table from its users.
func (s *Store) installAlone(ctx context.Context, tx pgx.Tx, until time.Time) error {
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '200ms'"); err != nil {
		return err
	}
	for {
		var alone bool
		err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))",
			pgx.QueryExecModeExec, "holdfast "+s.schema).Scan(&alone)
		if err != nil || alone {
			return err
		}
		if !pauseUntil(ctx, until, installPause) {
			return errInstalling
		}
	}
}

// pauseUntil waits for d to three times d, and reports whether until is still ahead.
func pauseUntil(ctx context.Context, until time.Time, d time.Duration) bool {
	d += rand.N(2 * d)
	return time.Until(until) > d && pause(ctx, d) == nil
}
