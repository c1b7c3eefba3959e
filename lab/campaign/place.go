//go:build unix

package campaign

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/register"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// place is the store of a campaign, with its servers.
type place struct {
	url      string // of the store
	register register.Address
	file     bool                                   // the store is a file: there is no network
	direct   bool                                   // clients learn addresses from the servers: no network can be put between
	forgets  bool                                   // a copy that takes over may lack some grants
	unqueues bool                                   // a crash may take back the latest places in the queue
	clocked  bool                                   // two holds of the same moment may have the same token
	served   bool                                   // processes reach it through holdfast serve
	server   any                                    // implements some of the interfaces below; nil: cannot fail
	records  func(ctx context.Context) (int, error) // counts the records in the store
	// prepare creates what an empty server needs in addition to what stores create when they
	// are opened; nil: nothing.
	prepare func(t testing.TB)
}

// stopper is a server that can be killed.
type stopper interface{ Stop() }

// restarter is a server that can be killed and restarted with its data.
type restarter interface{ Restart(t testing.TB) }

// freezer is a server that can be suspended.
type freezer interface {
	Freeze(t testing.TB)
	Thaw(t testing.TB)
}

// forgetful is a server that can lose its data, including that of the registers.
type forgetful interface{ Empty(t testing.TB) }

// replicated is a group of servers in which a copy can take over from the primary.
type replicated interface {
	// FailOver kills the primary, and returns when a copy has taken over.
	FailOver(t testing.TB)
	// Rejoin starts the killed server again, and returns when it is a complete copy.
	Rejoin(t testing.TB)
}

// emulator keeps its data in memory: a restart loses them.
type emulator struct {
	freezer
	stopper
	restart func(t testing.TB)
}

// Empty implements forgetful.
func (e emulator) Empty(t testing.TB) { e.restart(t) }

// through returns the store's URL for a process behind a network.
func (p *place) through(t testing.TB, n *proxy.Network) string {
	t.Helper()
	if p.file || p.direct {
		return p.url
	}
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = n.Address(u.Host)
	return u.String()
}

// opener opens a place with registers for the resources.
type opener func(t testing.TB, resources []string) *place

// places open a place for each kind of store.
var places = map[string]opener{
	"sqlite":       inSQLite,
	"redis":        inRedis,
	"postgres":     inPostgres,
	"serve":        served(inPostgres),
	"serve-redis":  served(inRedis),
	"serve-sqlite": served(inSQLite),
	"postgres-standby": func(t testing.TB, resources []string) *place {
		s := engines.NewPostgresPair(t)
		prepare := func(t testing.TB) {
			t.Helper()
			if err := register.PreparePostgres(t.Context(), s.URL, resources); err != nil {
				t.Fatal(err)
			}
			initialize(t, s.URL)
		}
		return &place{
			url: s.URL, direct: true, unqueues: true, register: register.Address{Kind: "postgres", URL: s.URL}, server: s, prepare: prepare,
		}
	},
	"redis-sentinel": func(t testing.TB, _ []string) *place {
		// Only the register behind HTTP is used: a register in a server that forgets would
		// forget the tokens too.
		s := engines.NewRedisSentinel(t)
		return &place{url: s.URL, direct: true, forgets: true, server: s}
	},
	// The only replica has every confirmed hold, and takes over.
	"redis-sentinel-replica": func(t testing.TB, _ []string) *place {
		s := engines.NewRedisSentinel(t)
		return &place{url: s.URL + "&replicas=1&replica_timeout=300ms", direct: true, unqueues: true, server: s}
	},
	"mongodb":        mongoDB,
	"mongodoc-flag":  layout("mongodoc-flag", false),
	"mongodoc-ttl":   layout("mongodoc-ttl", true),
	"mongodoc-value": layout("mongodoc-value", true),
	"opensearch":     func(t testing.TB, resources []string) *place { return search(t, engines.NewOpenSearch(t), resources) },
	"opensearch-cluster": func(t testing.TB, _ []string) *place {
		s := engines.NewOpenSearchCluster(t, "locks")
		p := &place{url: "elasticsearch://" + s.Hosts(t) + "/?index=locks&replicas=1", direct: true, server: s}
		p.prepare = func(t testing.TB) {
			t.Helper()
			initialize(t, p.url)
			s.Settle(t)
		}
		return p
	},
	"elasticsearch": func(t testing.TB, resources []string) *place {
		return search(t, engines.NewElasticsearch(t), resources)
	},
}

func inSQLite(t testing.TB, resources []string) *place {
	t.Helper()
	folder := t.TempDir()
	data := filepath.Join(folder, "registers.db")
	if err := register.PrepareSQLite(t.Context(), data, resources); err != nil {
		t.Fatal(err)
	}
	p := &place{register: register.Address{Kind: "sqlite", URL: data}, file: true}
	if d := newDisk(t); d != nil {
		folder, p.server = d.folder, d
	}
	locks := filepath.Join(folder, "locks.db")
	p.url = "sqlite://" + locks
	p.records = func(ctx context.Context) (n int, err error) {
		db, err := sql.Open("sqlite", locks)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		return n, db.QueryRowContext(ctx, "SELECT count(*) FROM resources").Scan(&n)
	}
	return p
}

func inRedis(t testing.TB, _ []string) *place {
	t.Helper()
	s := engines.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	records := func(ctx context.Context) (int, error) {
		client := redis.NewClient(o)
		defer client.Close()
		n, err := client.DBSize(ctx).Result()
		return int(n), err
	}
	return &place{
		url: "redis://" + o.Addr, register: register.Address{Kind: "redis", URL: "redis://" + o.Addr + "/1"}, server: s, records: records,
	}
}

func inPostgres(t testing.TB, resources []string) *place {
	t.Helper()
	s := engines.NewPostgres(t)
	prepare := func(t testing.TB) {
		t.Helper()
		if err := register.PreparePostgres(t.Context(), s.URL, resources); err != nil {
			t.Fatal(err)
		}
		initialize(t, s.URL)
	}
	records := func(ctx context.Context) (n int, err error) {
		pool, err := pgxpool.New(ctx, s.URL)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		return n, pool.QueryRow(ctx, "SELECT count(*) FROM holdfast.locks").Scan(&n)
	}
	return &place{
		url: s.URL, unqueues: true, register: register.Address{Kind: "postgres", URL: s.URL}, server: s, records: records, prepare: prepare,
	}
}

func search(t testing.TB, s *engines.SearchServer, resources []string) *place {
	t.Helper()
	node, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	store, data := "elasticsearch://"+node.Host+"/?index=locks", s.URL+"/registers"
	prepare := func(t testing.TB) {
		t.Helper()
		if err := register.PrepareSearch(t.Context(), data, resources); err != nil {
			t.Fatal(err)
		}
		initialize(t, store)
	}
	return &place{url: store, register: register.Address{Kind: "search", URL: data}, server: s, prepare: prepare}
}

// initialize creates what a store needs on an empty server.
func initialize(t testing.TB, url string) {
	t.Helper()
	s, err := driver.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.(driver.Initializer).Init(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// layout opens a place for a store in MongoDB with documents of another layout.
func layout(scheme string, clocked bool) func(t testing.TB, resources []string) *place {
	return func(t testing.TB, resources []string) *place {
		t.Helper()
		p := mongoDB(t, resources)
		p.url, p.clocked = strings.Replace(p.url, "mongodb", scheme, 1), clocked
		return p
	}
}

func mongoDB(t testing.TB, resources []string) *place {
	t.Helper()
	s := engines.NewMongoServer(t)
	prepare := func(t testing.TB) {
		t.Helper()
		client, err := mongo.Connect(options.Client().ApplyURI(s.URL))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Disconnect(t.Context()) //nolint:errcheck // a client for a moment
		if err := register.PrepareMongo(t.Context(), client.Database("campaign"), resources); err != nil {
			t.Fatal(err)
		}
	}
	url := engines.MongoURL(s.Engine, "campaign", "")
	records := func(ctx context.Context) (int, error) {
		client, err := mongo.Connect(options.Client().ApplyURI(s.URL))
		if err != nil {
			return 0, err
		}
		defer client.Disconnect(ctx) //nolint:errcheck // a client for a moment
		n, err := client.Database("campaign").Collection("locks").CountDocuments(ctx, bson.D{})
		return int(n), err
	}
	return &place{url: url, register: register.Address{Kind: "mongodb", URL: url}, server: emulator{s, s, s.Restart}, records: records, prepare: prepare}
}
