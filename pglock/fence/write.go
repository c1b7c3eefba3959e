package fence

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// tries bounds how often a write is sent again because the row changed between the
// refused write and the query for the reason.
const tries = 5

// write is one change of a row, and the statements for it. Arguments are numbered
// in this order: the token, the key's, those to set.
type write struct {
	row   Row
	token int64
	// Quoted names of columns, and the arguments of the statement.
	key, set  []string
	args      []any
	statement string
}

func (r Row) write(set map[string]any, token uint64) (*write, error) {
	switch {
	case token == 0 || token > driver.MaxToken:
		return nil, invalid("%d is not a token", token)
	case r.DB == nil:
		return nil, invalid("the row has no DB")
	case len(r.Table) == 0 || slices.Contains(r.Table, ""):
		return nil, invalid("the row has no table")
	case len(r.Key) == 0:
		return nil, invalid("the row has no key")
	}
	w := &write{row: r, token: int64(token), args: []any{int64(token)}}
	for _, column := range slices.Sorted(maps.Keys(r.Key)) {
		name, err := quoted(column)
		if err != nil {
			return nil, err
		}
		if null(r.Key[column]) {
			return nil, invalid("column %q of the key is null", column)
		}
		w.key, w.args = append(w.key, name), append(w.args, r.Key[column])
	}
	for _, column := range slices.Sorted(maps.Keys(set)) {
		name, err := quoted(column)
		if err != nil {
			return nil, err
		}
		w.set, w.args = append(w.set, name), append(w.args, set[column])
	}
	return w, nil
}

// null reports whether the value becomes NULL, which equals no value: a unique
// constraint lets any number of rows have it, and each Put would insert another one.
func null(value any) bool {
	for v := reflect.ValueOf(value); ; v = v.Elem() {
		switch v.Kind() {
		case reflect.Invalid:
			return true
		case reflect.Pointer, reflect.Slice, reflect.Map:
			if v.IsNil() {
				return true
			}
		}
		if valuer, is := reflect.TypeAssert[sqldriver.Valuer](v); is {
			value, err := valuer.Value()
			return err == nil && value == nil
		}
		if v.Kind() != reflect.Pointer {
			return false
		}
	}
}

// pairs are "name = $n" for names whose first argument is number first.
func pairs(names []string, first int) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = name + " = $" + strconv.Itoa(first+i)
	}
	return all
}

func (w *write) table() string { return w.row.Table.Sanitize() }

// chosen is the condition of the key, whose first argument is number first.
func (w *write) chosen(first int) string { return strings.Join(pairs(w.key, first), " AND ") }

// The token is cast, so that a column of text is an error and not compared as text.
const token = "$1::bigint"

// registered returns what the statement left in the row, as the server has stored
// it: triggers may have changed it. A view has no tableoid: its row would only be
// what a trigger returned. The commit waits for the disk: a crash must not forget
// the token.
const registered = ` RETURNING fence = ` + token + `, tableoid::bigint, set_config('synchronous_commit',
 CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)`

// update counts the rows of the key within the statement: of several rows, some could
// be changed and others not.
func (w *write) update() {
	set := append([]string{Column + " = " + token}, pairs(w.set, 2+len(w.key))...)
	w.statement = "UPDATE " + w.table() + " SET " + strings.Join(set, ", ") + " WHERE " + w.chosen(2) +
		" AND (fence IS NULL OR fence <= " + token + ")" +
		" AND (SELECT count(*) FROM (SELECT FROM " + w.table() + " WHERE " + w.chosen(2) + " LIMIT 2) AS chosen) = 1" + registered
}

func (w *write) put() {
	columns := append(append([]string{Column}, w.key...), w.set...)
	values, set := []string{token}, []string{Column + " = " + token}
	for n := range len(w.key) + len(w.set) {
		values = append(values, "$"+strconv.Itoa(n+2))
	}
	set = append(set, pairs(w.set, 2+len(w.key))...)
	w.statement = "INSERT INTO " + w.table() + " AS row (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") +
		") ON CONFLICT (" + strings.Join(w.key, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ") +
		" WHERE row.fence IS NULL OR row.fence <= " + token + strings.ReplaceAll(registered, "fence =", "row.fence =")
}

// send sends the statement until its outcome is known.
func (w *write) send(ctx context.Context) error {
	for range tries {
		var stored *bool
		var table int64
		var commit string
		err := w.row.DB.QueryRow(ctx, w.statement, w.args...).Scan(&stored, &table, &commit)
		switch {
		case err == nil && stored != nil && *stored:
			return nil
		case err == nil:
			return fmt.Errorf("fence: the token was not stored in column %q of table %s: a trigger changed it, or the column is not a bigint",
				Column, w.table())
		case !errors.Is(err, sql.ErrNoRows): // pgx.ErrNoRows is, too
			return w.explained(foreign.Error(ctx, err, holdfast.ErrStale, ErrNotFound))
		}
		if err := w.refused(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("fence: the row of table %s stays as it is, though it has seen no larger token: "+
		"a trigger (suppress_redundant_updates_trigger is one) or row-level security keeps it from being changed, or other programs change it all the time",
		w.table())
}

// refused returns why the row refused a write, or nil if it would accept it now.
func (w *write) refused(ctx context.Context) error {
	var rows int64
	var seen *int64
	look := "SELECT count(*), max(fence) FROM (SELECT fence FROM " + w.table() + " WHERE " + w.chosen(1) + " LIMIT 2) AS chosen"
	err := w.row.DB.QueryRow(ctx, look, w.args[1:1+len(w.key)]...).Scan(&rows, &seen)
	switch {
	case err != nil:
		return foreign.Error(ctx, err, holdfast.ErrStale, ErrNotFound)
	case rows == 0:
		return ErrNotFound
	case rows > 1:
		return fmt.Errorf("fence: the key chooses several rows of table %s, and nothing was changed: it must be unique", w.table())
	case seen != nil && *seen > w.token:
		return fmt.Errorf("fence: %w: the row has seen token %d, which is larger than %d", holdfast.ErrStale, *seen, w.token)
	}
	return nil
}

// explained adds what to do about errors that are not outages.
func (w *write) explained(err error) error {
	var refused interface{ SQLState() string } // of any driver's
	if errors.As(err, &refused) {
		switch refused.SQLState() {
		case "42703": // undefined column
			return fmt.Errorf("fence: %s must be a table with column %q, not a view: %w", w.table(), Column, err)
		case "42883": // undefined operator
			return fmt.Errorf("fence: column %q of %s must be a bigint: %w", Column, w.table(), err)
		case "42P10": // no constraint
			return fmt.Errorf("fence: the key of %s must be that of a unique constraint: %w", w.table(), err)
		}
	}
	return err
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
