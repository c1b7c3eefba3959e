// Package fence keeps stale holders of locks from writing to rows of PostgreSQL.
//
// A holder that was stopped, or whose write was delayed, may write after another
// client has acquired its lock. Each acquisition has a larger token than all before
// it (Hold.Token), so the row that the lock protects can refuse such a write: its
// column [Column], a bigint, has the largest token that the row has seen, and this
// package changes the row only for a token that is not smaller. A column that is null
// has seen none:
//
//	ALTER TABLE accounts ADD COLUMN fence bigint
//
// A new holder registers its token by [Row.Claim] before it reads the row. From then
// on the row refuses the writes of earlier holders. Without Claim, a late write can
// slip in between the new holder's read and its write.
//
// To change more than one row, or to do more than set values, use a transaction that
// claims first: the claim locks the row until the end, so that all statements of the
// transaction are the present holder's. A transaction that hangs keeps the next
// holder waiting for as long as it is open: let the server end it
// (idle_in_transaction_session_timeout). Under repeatable read or serializable the
// server may give up (40001). That does not mean that the token is stale: repeat the
// transaction.
//
// Every call checks the token that the row has registered, and when it returns, that
// token is on disk, even if synchronous_commit is off; whether it is on standbys
// depends on the settings. A token counts only after the transaction that took the
// lock is committed (see pglock.Store.AcquireTx).
//
// The lock may be in any store whose tokens rise, see driver.Traits.Fencing. Tokens
// protect what exclusive holds write. They distinguish holders, not the writes of one
// holder: its own late write, under the same token, is made. Other programs must not
// change the column, and must write to the row only through a fence. A deleted row
// has lost its token, and a stale [Row.Put] makes the row again: do not delete a row,
// but mark it as deleted until no holder can be so late.
//
// It works on a pool, a connection or a transaction of pgx, and of database/sql by
// [Std].
package fence

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Column is the column of a protected row that has the largest token seen.
const Column = "fence"

// ErrNotFound says that there is no such row, and nothing was changed.
var ErrNotFound = errors.New("fence: there is no such row")

// DB sends statements: a *pgxpool.Pool, a *pgx.Conn, a pgx.Tx, or the result of Std.
type DB interface {
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// Row names a row that a lock protects. It may be copied, and used concurrently as
// far as DB can be.
type Row struct {
	DB DB
	// Table is its name, or a schema and its name: pgx.Identifier{"app", "accounts"}.
	// It is quoted: upper and lower case differ. It must not be a view, because a
	// view may not show what is stored.
	Table pgx.Identifier
	// Key has the columns that identify the row, and their values: those of the
	// primary key, or of another unique one. None may be null. If they match several
	// rows, nothing is changed.
	Key map[string]any
}

// Claim registers the token and changes nothing else. It returns holdfast.ErrStale
// if the row has seen a larger one, and ErrNotFound if there is no row. It may be
// repeated.
//
// In a transaction it locks the row until the end: all later statements of the
// transaction, on any table, take effect before a later holder's claim. A refusal
// leaves the transaction as it was.
func (r Row) Claim(ctx context.Context, token uint64) error { return r.Update(ctx, nil, token) }

// Update sets columns of the row to values and registers the token, in one
// statement.
//
// The error is holdfast.ErrStale if the row has seen a larger token, ErrNotFound if
// there is no row, and holdfast.ErrInvalid if the arguments are invalid: then nothing
// was changed. Any other error means that the outcome is unknown, or that the
// token could not be registered, and says why: a key that matches several rows, a
// trigger, row-level security, a column of another type. An Update may be repeated.
func (r Row) Update(ctx context.Context, set map[string]any, token uint64) error {
	w, err := r.write(set, token)
	if err != nil {
		return err
	}
	w.update()
	return w.send(ctx)
}

// Put makes the row, with the key's values and those of set, and registers the token;
// if the row is there, it is Update. Key must be the columns of the primary key, or
// of another unique constraint, all of them and no others. The errors are those of
// Update except ErrNotFound.
func (r Row) Put(ctx context.Context, set map[string]any, token uint64) error {
	w, err := r.write(set, token)
	if err != nil {
		return err
	}
	w.put()
	return w.send(ctx)
}

// StdDB is implemented by *sql.DB, *sql.Conn and *sql.Tx.
type StdDB interface {
	QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row
}

// Std makes a DB of one of database/sql. Its driver must be one for PostgreSQL.
func Std(db StdDB) DB { return std{db} }

type std struct{ db StdDB }

func (s std) QueryRow(ctx context.Context, statement string, args ...any) pgx.Row {
	return s.db.QueryRowContext(ctx, statement, args...)
}
