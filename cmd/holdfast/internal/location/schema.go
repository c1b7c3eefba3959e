package location

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/redislock"
)

// Schema returns what the store creates and the rights that it needs: for PostgreSQL the
// SQL that creates it, and for other stores a text. It connects to nothing.
func (l Location) Schema() (string, error) {
	u, err := driver.ParseURL(l.URL)
	if err != nil {
		return "", l.Failure(fmt.Errorf("location: %w", err))
	}
	k := kindOf(u.Scheme)
	switch {
	case k.schema != nil:
	case slices.Contains(driver.Schemes(), u.Scheme):
		return "", exit.Errorf(exit.Store, "what a store of the scheme %s: creates is not known here; its own documentation says it", u.Scheme)
	default:
		_, err := driver.Open(context.Background(), l.URL) // fails
		return "", l.Failure(fmt.Errorf("location: %w", err))
	}
	text, err := k.schema(u)
	if err != nil {
		return "", l.Failure(fmt.Errorf("location: %w", err))
	}
	return text, nil
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
use also creates the folder, in the local store and for users who may.
`, nil
}

func mongodbSchema(u *url.URL) (string, error) {
	return fmt.Sprintf(`The first use creates the collection %[1]s of the database that the URL names, with
a unique index on resource, four indexes on lockId and expiresAt, one on the
lockId of waiters, and one on touched of documents that nobody holds. With
layout= in the URL, it is the collection of other programs, in their layout.

The user needs the role readWrite on the database. To see its indexes afterwards:
db.%[1]s.getIndexes()
`, parameter(u, "collection", "locks")), nil
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
