// Package fence keeps stale holders of locks from writing to rows of PostgreSQL.
//
// A holder that was stopped, or whose write was on its way for too long, may write
// after its lock has become another's. Each acquisition has a larger token than all
// before it (Hold.Token), so the row that the lock protects can tell: it keeps the
// largest token that it has seen in the column [Column], a bigint, and is changed
// here only for one that is not smaller. A column that is null has seen none:
//
//	ALTER TABLE accounts ADD COLUMN fence bigint
//
// A new holder registers its token by [Row.Claim] before it reads the row. What its
// predecessor sends from then on is refused. Without Claim a late write can slip in
// between the new holder's read and its write.
//
// What is more than one row, or more than values to set, goes into a transaction
// that claims first: the claim locks the row until the end, so that all statements
// of the transaction are the present holder's.
//
// The lock may be in any store: what matters is that its tokens rise, see
// driver.Traits.Fencing. Tokens protect what exclusive holds write. Other programs
// must leave the column as it is; a row that is deleted has forgotten.
//
// It works on a pool, a connection or a transaction of pgx, and of database/sql by
// [Std].
package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Column is the column of a protected row that has the largest token seen.
const Column = "fence"

// ErrNotFound says that there is no such row, and nothing was done.
var ErrNotFound = errors.New("fence: there is no such row")

// tries bounds how often an update is sent again because the row changed between
// the update, which it refused, and the look at why.
const tries = 5

// DB sends statements: a *pgxpool.Pool, a *pgx.Conn, a pgx.Tx, or what Std makes.
type DB interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// Row names a row that a lock protects. It may be copied, and used concurrently as
// far as DB can be.
type Row struct {
	DB DB
	// Table is its name, or a schema and its name: pgx.Identifier{"app", "accounts"}.
	// It is quoted: upper and lower case differ.
	Table pgx.Identifier
	// Key has the columns that say which row it is, and their values: those of the
	// primary key, or of another unique one. None may be nil.
	Key map[string]any
}

// Claim registers the token and changes nothing else. It returns holdfast.ErrStale
// if the row has seen a larger one, and ErrNotFound if there is no row. It may be
// repeated.
//
// In a transaction it keeps all others from the row until the end: what the
// transaction does after it, to whatever tables, no later holder has come before. A
// refusal leaves the transaction as it was.
func (r Row) Claim(ctx context.Context, token uint64) error { return r.Update(ctx, nil, token) }

// Update sets columns of the row to values and registers the token, in one
// statement.
//
// The error is holdfast.ErrStale if the row has seen a larger token, ErrNotFound if
// there is no row, and holdfast.ErrInvalid if the arguments cannot be: nothing was
// changed then. Any other error means that the outcome is unknown. To repeat an
// Update is safe.
func (r Row) Update(ctx context.Context, set map[string]any, token uint64) error {
	u, err := r.update(set, token)
	if err != nil {
		return err
	}
	for range tries {
		tag, err := r.DB.Exec(ctx, u.statement, u.args...)
		if err != nil {
			return err
		}
		switch tag.RowsAffected() {
		case 1:
			return nil
		case 0:
		default:
			return fmt.Errorf("fence: the key chose %d rows of table %s, and all of them were changed: it must be unique",
				tag.RowsAffected(), r.Table.Sanitize())
		}
		if err := r.refused(ctx, u, token); err != nil {
			return err
		}
	}
	return fmt.Errorf("fence: the row changed in each of %d tries", tries)
}

// refused says why an update was, or nil if it would not be now.
func (r Row) refused(ctx context.Context, u update, token uint64) error {
	var seen *int64
	err := r.DB.QueryRow(ctx, u.look, u.key...).Scan(&seen)
	switch {
	case errors.Is(err, sql.ErrNoRows): // pgx.ErrNoRows is, too
		return ErrNotFound
	case err != nil:
		return err
	case seen != nil && *seen > int64(token):
		return fmt.Errorf("fence: %w: the row has seen token %d, which is larger than %d", holdfast.ErrStale, *seen, token)
	}
	return nil
}

// update is the statements of an update and why it was refused.
type update struct {
	statement, look string
	args, key       []any
}

func (r Row) update(set map[string]any, token uint64) (u update, err error) {
	switch {
	case token == 0 || token > driver.MaxToken:
		return u, invalid("%d is not a token", token)
	case r.DB == nil:
		return u, invalid("the row has no DB")
	case len(r.Table) == 0 || slices.Contains(r.Table, ""):
		return u, invalid("the row has no table")
	case len(r.Key) == 0:
		return u, invalid("the row has no key")
	}
	// The token is the first argument, those of the key follow.
	u.args = []any{int64(token)}
	var conditions, looks, values []string
	for _, column := range slices.Sorted(maps.Keys(r.Key)) {
		name, err := quoted(column)
		if err != nil {
			return u, err
		}
		if r.Key[column] == nil {
			return u, invalid("column %q of the key is nil", column)
		}
		u.key = append(u.key, r.Key[column])
		u.args = append(u.args, r.Key[column])
		conditions = append(conditions, name+" = $"+strconv.Itoa(len(u.args)))
		looks = append(looks, name+" = $"+strconv.Itoa(len(u.key)))
	}
	fence := pgx.Identifier{Column}.Sanitize()
	values = append(values, fence+" = $1")
	for _, column := range slices.Sorted(maps.Keys(set)) {
		name, err := quoted(column)
		if err != nil {
			return u, err
		}
		u.args = append(u.args, set[column])
		values = append(values, name+" = $"+strconv.Itoa(len(u.args)))
	}
	table := r.Table.Sanitize()
	u.statement = "UPDATE " + table + " SET " + strings.Join(values, ", ") + " WHERE " + strings.Join(conditions, " AND ") +
		" AND (" + fence + " IS NULL OR " + fence + " <= $1)"
	u.look = "SELECT " + fence + " FROM " + table + " WHERE " + strings.Join(looks, " AND ")
	return u, nil
}

func quoted(column string) (string, error) {
	switch column {
	case "":
		return "", invalid("a column has no name")
	case Column:
		return "", invalid("column %q has the token", Column)
	}
	return pgx.Identifier{column}.Sanitize(), nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("fence: %w: %s", holdfast.ErrInvalid, fmt.Sprintf(format, args...))
}

// StdDB is what *sql.DB, *sql.Conn and *sql.Tx have.
type StdDB interface {
	ExecContext(ctx context.Context, statement string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, statement string, args ...any) *sql.Row
}

// Std makes a DB of one of database/sql, whose driver must be one for PostgreSQL.
func Std(db StdDB) DB { return std{db} }

type std struct{ db StdDB }

func (s std) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	res, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := res.RowsAffected()
	return pgconn.NewCommandTag("UPDATE " + strconv.FormatInt(n, 10)), err
}

func (s std) QueryRow(ctx context.Context, statement string, args ...any) pgx.Row {
	return s.db.QueryRowContext(ctx, statement, args...)
}
