package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/esnode"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/mongolock"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/redislock"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick lists the stores whose clocks run Quick times as fast as the machine's.
var quick = map[string]bool{"memory": true, "redis": true, "redis, connections cut": true, "postgres": true}

// stores open two handles on the same data.
var stores = map[string]func(t *testing.T) [2]driver.Store{
	"memory": func(*testing.T) [2]driver.Store {
		start := time.Now()
		s := memlock.New(&memlock.Options{Now: func() time.Time { return start.Add(Quick * time.Since(start)) }})
		return [2]driver.Store{s, s}
	},
	"sqlite": func(t *testing.T) (both [2]driver.Store) {
		path := filepath.Join(t.TempDir(), "locks.db")
		for i := range both {
			s, err := sqlitelock.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			both[i] = s
		}
		return both
	},
	"opensearch": func(t *testing.T) [2]driver.Store {
		return openSearch(t, engines.OpenSearch(t))
	},
	"elasticsearch": func(t *testing.T) [2]driver.Store {
		return openSearch(t, engines.Elasticsearch(t))
	},
	"redis": func(t *testing.T) [2]driver.Store {
		return openRedis(t, nil)
	},
	"redis, connections cut": func(t *testing.T) [2]driver.Store {
		n := proxy.New(t)
		both := openRedis(t, n)
		n.Set(proxy.Rarely(1))
		for i, s := range both {
			both[i] = settled{s}
		}
		return both
	},
	"postgres": func(t *testing.T) (both [2]driver.Store) {
		database := engines.PostgresDatabase(t)
		for i := range both {
			pool, err := pgxpool.New(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			s := pglock.New(pool, &pglock.Options{Poll: true})
			if err := s.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if _, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS bigint
					LANGUAGE sql VOLATILE AS 'SELECT %[1]d + ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint - %[1]d) * %[2]d'`,
					time.Now().UnixMicro(), Quick)); err != nil {
					t.Fatal(err)
				}
			}
			both[i] = s
		}
		return both
	},
	"mongodb": func(t *testing.T) [2]driver.Store {
		db := engines.MongoDatabase(t)
		return openMongo(t, db, db)
	},
	"mongodb, connections cut": func(t *testing.T) [2]driver.Store {
		db, n := engines.MongoDatabase(t), proxy.New(t)
		client, err := mongo.Connect(options.Client().ApplyURI(engines.MongoDB(t).URL).SetDialer(n).
			SetHeartbeatInterval(500 * time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			n.Set(proxy.Fault{})
			if err := client.Disconnect(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		both := openMongo(t, db, client.Database(db.Name()))
		n.Set(proxy.Rarely(1))
		for i, s := range both {
			both[i] = settled{s}
		}
		return both
	},
}

// openMongo opens a store in each of two handles on the same database.
func openMongo(t *testing.T, near, far *mongo.Database) (both [2]driver.Store) {
	for i, db := range []*mongo.Database{near, far} {
		s := mongolock.New(db.Collection("locks"), &mongolock.Options{Poll: true})
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		both[i] = keeping{s}
	}
	return both
}

// keeping is a store whose sweeps keep idle records for a while. MongoDB reads the time of a
// command before the command waits for its turn: a record that was deleted and created again in
// between would get a lower token. Sweeps of a Client keep records for at least a minute.
type keeping struct{ driver.Store }

func (s keeping) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	q.Idle += 5 * time.Second
	return s.Store.Sweep(ctx, q)
}

// openSearch opens two stores on one index.
func openSearch(t *testing.T, e engines.Engine) (both [2]driver.Store) {
	index := engines.SearchIndex(t, e)
	for i := range both {
		s := eslock.New(esnode.New(t, e), &eslock.Options{Index: index})
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		both[i] = s
	}
	return both
}

// openRedis opens two stores on a server of their own, the second one behind the network if it
// is not nil.
func openRedis(t *testing.T, n *proxy.Network) (both [2]driver.Store) {
	server, clock := engines.NewRedisClock(t)
	clock.Run(Quick)
	for i := range both {
		o, err := redis.ParseURL(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if n != nil && i == 1 {
			o.Dialer = n.DialContext
		}
		client := redis.NewClient(o)
		t.Cleanup(func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
		s := redislock.New(client, &redislock.Options{Poll: true})
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		both[i] = s
	}
	return both
}

// settled is a store behind a network that cuts connections. When a call returns without an
// answer, the request has been done or was lost on the way.
type settled struct{ driver.Store }

func settle(err error) error {
	if err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) {
		return err
	}
	return errors.Join(ErrSettled, err)
}

func (s settled) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, q)
	return g, settle(err)
}

func (s settled) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs, err := s.Store.Renew(ctx, qs)
	for i := range rs {
		rs[i].Err = settle(rs[i].Err)
	}
	return rs, settle(err)
}

func (s settled) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	rs, err := s.Store.Release(ctx, qs)
	for i := range rs {
		rs[i].Err = settle(rs[i].Err)
	}
	return rs, settle(err)
}

// Some order of decisions explains the answers, whatever happens to requests and replies.
func TestHistories(t *testing.T) {
	for name, open := range stores {
		for faults, disturb := range map[string]func(driver.Store) driver.Store{
			"sound": func(s driver.Store) driver.Store { return s },
			"behind faults": func(s driver.Store) driver.Store {
				return drivertest.NewFaultStore(s, Faults(rand.Uint64()))
			},
		} {
			t.Run(name+"/"+faults, func(t *testing.T) {
				both := open(t)
				for i, s := range both {
					both[i] = disturb(s)
				}
				events := Exercise(t, quick[name], both[:]...)
				for _, s := range both {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
				for _, wrong := range drivertest.Judge(events) {
					t.Error(wrong)
				}
				Check(t, events)
				checkVariety(t, events)
			})
		}
	}
}

// checkVariety fails the test unless the exercise had enough of each outcome.
func checkVariety(t *testing.T, events []drivertest.Event) {
	t.Helper()
	n := make(map[string]int)
	for _, e := range events {
		n[string(e.Op)+" "+string(e.Outcome)]++
	}
	t.Log(len(events), "requests:", n)
	for _, what := range []string{"acquire done", "acquire held", "renew done", "renew lost", "release done"} {
		if n[what] == 0 {
			t.Errorf("no request with the outcome: %s", what)
		}
	}
}
