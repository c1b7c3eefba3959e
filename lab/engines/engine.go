// Package engines provides tests with the servers that stores need: MongoDB (an emulator),
// OpenSearch, Elasticsearch, Redis and PostgreSQL, and proxies in front of them. A server
// starts when a test of the process first asks for it. All tests of the process share it, and
// it ends with the process, however that ends. A test that must stop or configure a server
// starts its own.
//
// These environment variables change where servers come from. HOLDFAST_TEST_NAME_URL is the URL
// of a server to use for one kind, so that the same tests run on a real server.
// HOLDFAST_TEST_ENGINES is the URL of a process that starts servers for other processes, see
// [Handler]. HOLDFAST_REQUIRE is a list with commas of the servers that must be available:
// without its server a test is skipped, or fails if the list has that server. The names are
// mongodb, opensearch, elasticsearch, redis and postgres.
package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/need"
)

// Engine is a running server.
type Engine struct {
	// Kind is the name of the kind of server.
	Kind string
	// URL is the address for clients.
	URL string
	// Emulated means that the server only speaks the protocol of the real one.
	// docs/dev/testing.md says what it cannot show.
	Emulated bool
}

// kind is a kind of server.
type kind struct {
	name     string // in HOLDFAST_REQUIRE, and in capitals in the name of the variable
	start    func(ctx context.Context) (*process, error)
	emulated func(url string) bool // nil: never emulated

	once    sync.Once
	process *process // kept as long as this process; nil if another process started it
	url     string
	err     error
}

// Others is the environment variable with the URL of a process that starts servers for others.
const Others = "HOLDFAST_TEST_ENGINES"

var kinds = []*kind{mongoDB, openSearch, elasticsearch, redisKind, postgresKind}

// missing is an error that says what this machine lacks, and how to get it.
type missing struct{ what string }

func (m missing) Error() string { return m.what }

func (k *kind) variable() string { return "HOLDFAST_TEST_" + strings.ToUpper(k.name) + "_URL" }

// get returns the server of this kind for this process.
func (k *kind) get(ctx context.Context) (Engine, error) {
	if u := os.Getenv(k.variable()); u != "" {
		return k.engine(u), nil
	}
	k.once.Do(func() {
		if others := os.Getenv(Others); others != "" {
			k.url, k.err = k.ask(ctx, others)
		} else if k.process, k.err = k.start(context.WithoutCancel(ctx)); k.err == nil {
			k.url = k.process.url
		}
	})
	if k.err != nil {
		return Engine{}, k.err
	}
	return k.engine(k.url), nil
}

// shared is get for a test. It ends the test if the server is not available.
func (k *kind) shared(t testing.TB) Engine {
	t.Helper()
	e, err := k.get(t.Context())
	k.need(t, err)
	return e
}

func (k *kind) engine(url string) Engine {
	return Engine{Kind: k.name, URL: url, Emulated: k.emulated != nil && k.emulated(url)}
}

// need ends the test if err is not nil.
func (k *kind) need(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		k.skipOrFail(t, k.name, err, "; or set "+k.variable()+" to the URL of a server")
	}
}

// skipOrFail skips a test that cannot get a server of this kind, or something for it, or fails
// it if HOLDFAST_REQUIRE has the name.
func (k *kind) skipOrFail(t testing.TB, name string, err error, instead string) {
	t.Helper()
	_, lacking := errors.AsType[missing](err)
	if required := need.Required(k.name); lacking && !required {
		t.Skipf("%v%s", err, instead)
	} else {
		t.Fatalf("%s: %v", name, err)
	}
}

// Name returns an unused name for a database, a collection, an index or a prefix of keys.
func Name() string { return "holdfast_test_" + strings.ToLower(rand.Text()[:16]) }
