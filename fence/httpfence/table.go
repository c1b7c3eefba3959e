package httpfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Schema creates the table that a Table needs, in PostgreSQL and SQLite. Run it once, by
// Table.Create or in your own migrations.
const Schema = `CREATE TABLE IF NOT EXISTS holdfast_fences (resource text PRIMARY KEY, fence bigint NOT NULL)`

const (
	load  = `SELECT fence FROM holdfast_fences WHERE resource = $1`
	raise = `INSERT INTO holdfast_fences (resource, fence) VALUES ($1, $2)
		ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE holdfast_fences.fence < excluded.fence`
)

// Table keeps the newest tokens in the table holdfast_fences of PostgreSQL or SQLite, for
// any number of instances of a service, and across restarts. Each request reads one row
// by its key, and each new token writes one.
//
// A token that the database forgets lets stale requests in. In PostgreSQL DB must be the
// primary, and synchronous_commit must not be off; in SQLite set synchronous to FULL, and
// a busy_timeout. Do not delete or change rows. pglock/fence.Row may claim such a row in
// the service's own transaction: all its rows have the same column.
//
// Any isolation level works. If the default is repeatable read or serializable, and
// several requests bring a new token at once, PostgreSQL fails all but one. The Table
// repeats them if the driver's error has a method SQLState, as the errors of pgx and
// lib/pq have.
type Table struct {
	DB *sql.DB
}

// Create creates the table if it is missing.
func (t *Table) Create(ctx context.Context) error {
	_, err := t.DB.ExecContext(ctx, Schema)
	return err
}

// Load implements Newest. The error is holdfast.ErrDamaged if the row has no token.
func (t *Table) Load(ctx context.Context, resource string) (uint64, error) {
	var stored any
	err := again(func() error { return t.DB.QueryRowContext(ctx, load, resource).Scan(&stored) })
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	token, ok := stored.(int64)
	if !ok || token < 1 || token > driver.MaxToken {
		return 0, fmt.Errorf("httpfence: %w: the fence of %q in table holdfast_fences is not a bigint from 1 to %d",
			holdfast.ErrDamaged, resource, uint64(driver.MaxToken))
	}
	return uint64(token), nil
}

// Raise implements Newest, in one statement. It then reads the token back, because a
// trigger, a policy or a rule may keep it from being stored.
func (t *Table) Raise(ctx context.Context, resource string, token uint64) error {
	if err := valid(resource, token); err != nil {
		return err
	}
	err := again(func() error {
		_, err := t.DB.ExecContext(ctx, raise, resource, int64(token))
		return err
	})
	if err != nil {
		return err
	}
	seen, err := t.Load(ctx, resource)
	switch {
	case err != nil:
		return err
	case seen > token:
		return stale(resource, token, seen)
	case seen < token:
		return fmt.Errorf("httpfence: token %d of %q was not stored in table holdfast_fences, which has %d: "+
			"a trigger, a rule or row-level security prevents it", token, resource, seen)
	}
	return nil
}

// maxConflicts is how often a statement is sent that conflicts with others. At each of
// these conflicts, one of the others succeeds.
const maxConflicts = 20

// again repeats a statement that PostgreSQL could not serialize, so that it did nothing.
func again(send func() error) (err error) {
	for range maxConflicts {
		var refused interface{ SQLState() string } // of any driver
		if err = send(); !errors.As(err, &refused) || refused.SQLState() != "40001" {
			break
		}
	}
	return err
}
