package pglock

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
)

// layout is the version of the schema. It is in the comment of the table, which
// everybody may read, and which a dump keeps.
const layout = 2

const layoutComment = "Locks of Holdfast, layout "

//go:embed sql/*.sql
var files embed.FS

// Schema returns the SQL that installs a schema of this name, or brings an older
// one up to date; see Options.Schema. It may be run again, and best as one
// transaction (psql --single-transaction). Init runs it by itself where the role
// may.
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
	// A valid name has nothing that would have to be escaped.
	return strings.NewReplacer(
		"{schema}", quoted(name), "{schema_text}", "'"+name+"'", "{channel}", "'"+channel(name)+"'", "{layout}", strconv.Itoa(layout),
		"{never}", strconv.FormatInt(math.MaxInt64, 10),
	).Replace(b.String()), nil
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

func validSchema(name string) error {
	switch {
	case !schemaName.MatchString(name):
		return fmt.Errorf("%w: PostgreSQL schema %q: the name must be 1 to 48 lower-case letters, digits and underscores, the first no digit",
			driver.ErrInvalid, name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("%w: PostgreSQL schema %q: names that begin with pg_ are the server's", driver.ErrInvalid, name)
	}
	return nil
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// channel is where releases in the schema are told.
func channel(schema string) string { return "holdfast_" + schema }

// calls are the statements of a schema.
type calls struct{ acquire, acquireTx, renew, release, watch, list, sweep string }

func callsIn(schema string) calls {
	call := func(function string, args int) string {
		marks := make([]string, args)
		for i := range marks {
			marks[i] = "$" + strconv.Itoa(i+1)
		}
		return "SELECT * FROM " + quoted(schema) + "." + function + "(" + strings.Join(marks, ", ") + ")"
	}
	return calls{
		acquire: call("acquire", 4), acquireTx: call("acquire_tx", 4), renew: call("renew", 7), release: call("release", 6),
		watch: call("watch", 3), list: call("list", 4), sweep: call("sweep", 2),
	}
}
