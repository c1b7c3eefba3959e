package location

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/redislock"
)

// Schema returns what the store creates and the rights that it needs: for PostgreSQL the
// SQL that creates it, and for other stores a text. It connects to nothing.
func (l Location) Schema() (string, error) {
	u := l.parsed()
	k := kindOf(u.Scheme)
	if k.schema == nil && slices.Contains(driver.Schemes(), u.Scheme) {
		return "", exit.Errorf(exit.Store, "what a store of the scheme %s: creates is not known here; its own documentation says it", u.Scheme)
	}
	text, err := "", check(u) // which refuses a scheme that no store has
	if err == nil {
		text, err = k.schema(u)
	}
	if err != nil {
		return "", l.Failure(fmt.Errorf("location: %w", err))
	}
	return text, nil
}

// check returns the error of parameters that the store refuses. The URL need not name a
// server or a database.
func check(u *url.URL) error {
	full := *u
	if u.Scheme != "sqlite" && u.Scheme != "unix" {
		full.Host = cmp.Or(u.Host, "localhost")
		if strings.Trim(u.Path, "/") == "" {
			full.Path = "/0" // Redis has numbers
		}
	}
	ended, end := context.WithCancel(context.Background())
	end()
	_, err := driver.Open(ended, full.String()) // with an ended context it opens nothing
	if errors.Is(err, driver.ErrInvalid) {
		return err
	}
	return nil
}

// parameter returns a parameter of the URL, or its default.
func parameter(u *url.URL, name, byDefault string) string {
	return cmp.Or(u.Query().Get(name), byDefault)
}

func postgresSchema(u *url.URL) (string, error) {
	return pglock.Schema(parameter(u, "schema", "holdfast"))
}

func sqliteSchema(*url.URL) (string, error) {
	return `The first use creates the SQLite file, with the permissions 0600 unless mode= in
the URL sets others. The file has the tables resources and meta, two indexes and
a trigger. While it is in use, there are two more files beside it, whose names
end in -wal and -shm.

The user needs the rights to read and write the file and its folder. The first
use also creates the folder if it is missing, unless mode= lets others use it.
`, nil
}

func mongodbSchema(u *url.URL) (string, error) {
	collection := parameter(u, "collection", "locks")
	if u.Query().Has("layout") {
		return fmt.Sprintf(`The collection %s is that of other programs, in their layout. Holdfast adds one
field to their documents. It creates no index; the first lock creates the
collection if it is missing.

The user needs the role readWrite on the database.
`, collection), nil
	}
	named := "." + collection
	if strings.ContainsFunc(collection, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		named = fmt.Sprintf(".getCollection(%q)", collection)
	}
	return fmt.Sprintf(`The first use creates the collection %[1]s of the database that the URL names, with
a unique index on resource, four indexes on lockId and expiresAt, one on the
lockId of waiters, and one on touched of documents that nobody holds.

The user needs the role readWrite on the database. To see its indexes afterwards:
db%[2]s.getIndexes()
`, collection, named), nil
}

func elasticsearchSchema(u *url.URL) (string, error) {
	return fmt.Sprintf(`The first use creates the index %[1]s, with a mapping for the fields of locks, and
the alias %[1]s-holdfast of it. To an index that is there it adds the fields that it
lacks, and the alias.

The user needs the privileges read, write and manage for %[1]s*.
`, parameter(u, "index", "distributed-locks")), nil
}

func redisSchema(u *url.URL) (string, error) {
	return fmt.Sprintf(`Nothing is installed. Each resource that is locked has a key, whose name is %[1]s
and the name of the resource. The server deletes it %[2]s after the last hold,
or a little later.

The user needs the rights (ACL)
+evalsha +eval +get +set +del +time +scan +info +publish +subscribe +unsubscribe +ping ~%[1]s* &%[1]s*
in a Cluster also +spublish +ssubscribe +sunsubscribe +cluster, and with
replicas= in the URL +wait.
`, parameter(u, "prefix", redislock.DefaultPrefix), parameter(u, "key_retention", "24h")), nil
}

func serverSchema(*url.URL) (string, error) {
	return `Nothing is created by clients of a server. The server creates what its own store
needs: run holdfast schema with the URL of that store.

The caller needs the rights that the auth file of the server gives.
`, nil
}
