package pglock_test

import (
	"net/url"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// A store that is opened by its URL has connections of its own, and shares with one of a
// pool of pgx what it sends and how it understands the answers. So it has to pass the
// same suites.

// urlOf is the URL of the schema, with parameters: a name, a value, a name, …
func (d *database) urlOf(t testing.TB, schema string, params ...string) string {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("schema", schema)
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// openURL returns a store that nobody closes yet.
func openURL(t testing.TB, address string) driver.Store {
	t.Helper()
	s, err := driver.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opened is a store that is closed with the test.
func opened(t testing.TB, address string) driver.Store {
	t.Helper()
	s := openURL(t, address)
	t.Cleanup(func() { closeStore(t, s) })
	start(t, s)
	return s
}

func start(t testing.TB, s driver.Store) {
	t.Helper()
	if err := s.(driver.Initializer).Init(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// byURL opens stores in far, see clocked.
func byURL(far *database) func(t *testing.T, schema string) driver.Store {
	return func(t *testing.T, schema string) driver.Store { return openURL(t, far.urlOf(t, schema)) }
}

// at is the database through the network.
func (d *database) at(t testing.TB, n *proxy.Network) *database {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = n.Address(u.Host)
	return &database{url: u.String(), near: d.near}
}

func TestConformanceByURL(t *testing.T) {
	d := newDatabase(t)
	drivertest.Run(t, clocked(d, byURL(d)))
}

func TestConformanceByURLBehindNetwork(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: by URL, on a bad network")
	d := newDatabase(t)
	drivertest.Run(t, proxy.Disturbed(3, func(t *testing.T, n *proxy.Network) *drivertest.Harness {
		return clocked(d, byURL(d.at(t, n)))(t)
	}))
}

func TestConformanceByURLBehindPgBouncer(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: by URL, behind PgBouncer")
	d := newDatabase(t)
	drivertest.Run(t, pollingOnly(clocked(d, byURL(&database{url: engines.PgBouncer(t, d.url)}))))
}

func TestFaultsByURL(t *testing.T) {
	thorough.Test(t, "waits for many time-outs")
	d := newDatabase(t)
	faults.Run(t, func(t *testing.T) *faults.Place {
		n, name := proxy.New(t), schema()
		return &faults.Place{
			Network: n,
			Near:    func(t *testing.T) driver.Store { return openURL(t, d.urlOf(t, name)) },
			Far: func(t *testing.T) driver.Store {
				t.Cleanup(func() { ask.Until(t, "all connections are closed", n.Idle) })
				s := openURL(t, d.at(t, n).urlOf(t, name))
				start(t, s)
				// Connected, with its statements prepared.
				release(t, s, true, ask.Granted(t, s, ask.Request("prepared", "a")))
				return s
			},
		}
	})
}

// The URL names both servers: when the other one takes over, it is found.
func TestFailOverByURL(t *testing.T) {
	pair := engines.NewPostgresPair(t)
	d := inDatabase(t, pair.URL)
	s := opened(t, d.urlOf(t, schema()))
	held := ask.Granted(t, s, ask.Request("r", "a"))
	pair.FailOver(t)
	ask.Until(t, "the new primary is reached", func() bool {
		for _, err := range s.List(t.Context(), driver.Filter{Resource: "r"}) {
			return err == nil
		}
		return false
	})
	if e := ask.Refused(t, s, ask.Request("r", "b")); len(e.Holders) != 1 || e.Holders[0].Token != held.Token {
		t.Errorf("refusal %+v, want the holder with token %d", e, held.Token)
	}
	release(t, s, true, held)
}
