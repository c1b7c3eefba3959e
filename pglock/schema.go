package pglock

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
)

// layout is the version of the table and of what functions take and return.
const layout = 4

const layoutComment = "Locks of Holdfast, layout "

//go:embed sql/*.sql
var files embed.FS

// Schema returns the SQL that installs a schema of this name; see Options.Schema. It
// may be run again, best as one transaction (psql --single-transaction). It fails if
// the schema is of another layout. Init runs it if the role has the right.
func Schema(name string) (string, error) {
	if err := validSchema(name); err != nil {
		return "", err
	}
	paths, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, path := range paths { // in order
		text, err := files.ReadFile(path)
		if err != nil {
			return "", err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	// A valid name needs no escaping.
	return strings.NewReplacer(
		"{schema}", quoted(name), "{schema_text}", "'"+name+"'", "{channel}", "'"+channel(name)+"'", "{comment}", "'"+layoutComment+strconv.Itoa(layout)+"'",
		"{never}", strconv.FormatInt(math.MaxInt64, 10), "{places}", strconv.Itoa(driver.MaxPlaces),
	).Replace(b.String()), nil
}

// schemaName is compiled at its first use: every program that links this package would
// pay for it when it starts.
var schemaName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`) })

func validSchema(name string) error {
	switch {
	case !schemaName().MatchString(name):
		return fmt.Errorf("%w: PostgreSQL schema %q: the name must be 1 to 48 lower-case letters, digits and underscores, the first no digit",
			driver.ErrInvalid, name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("%w: PostgreSQL schema %q: names that begin with pg_ are the server's", driver.ErrInvalid, name)
	}
	return nil
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// channel is where releases in the schema are notified.
func channel(schema string) string { return "holdfast_" + schema }

// statements are those of a schema: calls of its functions.
type statements struct{ acquire, acquireTx, renew, release, watch, list, sweep, notify statement }

func statementsOf(schema string) statements {
	call := func(function string, args int, often bool) statement {
		marks := make([]string, args)
		for i := range marks {
			marks[i] = "$" + strconv.Itoa(i+1)
		}
		return statement{"SELECT * FROM " + quoted(schema) + "." + function + "(" + strings.Join(marks, ", ") + ")", often}
	}
	return statements{
		acquire: call("acquire", 7, true),
		// Not prepared: after an error the transaction could not continue with
		// another try.
		acquireTx: call("acquire_tx", 4, false),
		renew:     call("change", 10, false),
		release:   call("change", 10, true),
		watch:     call("watch", 3, false),
		list:      call("list", 4, false),
		sweep:     call("sweep", 2, false),
		notify:    statement{"SELECT pg_catalog.pg_notify($1, '')::text", false},
	}
}
