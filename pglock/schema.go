package pglock

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// layout is the version of the table and of what functions take and return.
const layout = 5

const layoutComment = "Locks of Holdfast, layout "

// The SQL, in the order in which it is run.
var (
	//go:embed sql/1_table.sql
	tableSQL string
	//go:embed sql/2_holds.sql
	holdsSQL string
	//go:embed sql/3_acquire.sql
	acquireSQL string
	//go:embed sql/4_change.sql
	changeSQL string
	//go:embed sql/5_watch.sql
	watchSQL string
	//go:embed sql/6_list.sql
	listSQL string
	//go:embed sql/7_sweep.sql
	sweepSQL string
)

// Schema returns the SQL that installs a schema of this name; see Options.Schema. It
// may be run again, best as one transaction, and so that psql fails if a statement does
// (psql -v ON_ERROR_STOP=1 --single-transaction). It fails if the schema is of another
// layout. Init runs it if the role has the right. Its first comment says which rights
// other roles need. The command prints it: holdfast schema URL.
func Schema(name string) (string, error) {
	if err := validSchema(name); err != nil {
		return "", err
	}
	text := strings.Join([]string{tableSQL, holdsSQL, acquireSQL, changeSQL, watchSQL, listSQL, sweepSQL, ""}, "\n")
	// A valid name needs no escaping.
	return strings.NewReplacer(
		"{schema}", quoted(name), "{schema_text}", "'"+name+"'", "{channel}", "'"+channel(name)+"'", "{comment}", "'"+layoutComment+strconv.Itoa(layout)+"'",
		"{never}", strconv.FormatInt(math.MaxInt64, 10), "{places}", strconv.Itoa(driver.MaxPlaces),
	).Replace(text), nil
}

// schemaName is compiled at its first use: every program that links this package would
// pay for it when it starts.
var schemaName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`) })

func validSchema(name string) error {
	switch {
	case !schemaName().MatchString(name):
		return fmt.Errorf("%w: PostgreSQL schema %s: the name must be 1 to 48 lower-case letters, digits and underscores, the first no digit",
			driver.ErrInvalid, quote.Short(name))
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("%w: PostgreSQL schema %q: names that begin with pg_ are the server's", driver.ErrInvalid, name)
	}
	return nil
}

// quoted is for names that contain no quotes.
func quoted(name string) string { return `"` + name + `"` }

// channel is where releases in the schema are notified.
func channel(schema string) string { return "holdfast_" + schema }

// statements are calls of the functions of a schema.
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
		acquire: call("acquire", 5, true),
		// Not prepared: after an error the transaction could not continue with
		// another try.
		acquireTx: call("acquire_tx", 3, false),
		renew:     call("change", 8, false),
		release:   call("change", 8, true),
		watch:     call("watch", 3, false),
		list:      call("list", 4, false),
		sweep:     call("sweep", 2, false),
		notify:    statement{"SELECT pg_catalog.pg_notify($1, '')::text", false},
	}
}
