package pglock_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/pglock"
)

// harnesses open stores in the database, each in a schema of its own.
func harnesses(d *database, change ...func(*pgxpool.Config)) func(t *testing.T) *drivertest.Harness {
	return func(t *testing.T) *drivertest.Harness { return harness(d, schema(), t, byPool(d, change...)) }
}

// byPool opens stores in far, on a pool of their own.
func byPool(far *database, change ...func(*pgxpool.Config)) func(t *testing.T, schema string) driver.Store {
	return func(t *testing.T, schema string) driver.Store {
		return pglock.New(far.pool(t, change...), &pglock.Options{Schema: schema})
	}
}

func harness(d *database, name string, t *testing.T, open func(t *testing.T, schema string) driver.Store) *drivertest.Harness {
	return &drivertest.Harness{
		Store: open(t, name), Reopen: func(t *testing.T) driver.Store { return open(t, name) },
		Short: time.Second, // the server writes to disk, and connections are opened meanwhile
		Damage: func(t *testing.T, resource string) {
			run(t, d.near, "UPDATE "+name+`.locks SET holds = '[{"lockId": 7}]' WHERE resource = $1`, resource)
		},
		Beside: func(t *testing.T) driver.Store { return byPool(d)(t, name) },
	}
}

// through lets a pool connect through the network. To cancel a statement pgx
// connects to where the connection went, which is the network already.
func through(n *proxy.Network) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		server := net.JoinHostPort(c.ConnConfig.Host, fmt.Sprint(c.ConnConfig.Port))
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == server {
				return n.DialContext(ctx, network, address)
			}
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		}
	}
}

// behind is a pool that connects through the network, and leaves no connection open.
func behind(t testing.TB, d *database, n *proxy.Network) *pgxpool.Pool {
	t.Helper()
	t.Cleanup(func() { ask.Until(t, "all connections are closed", n.Idle) })
	return d.pool(t, through(n))
}

// onSetClock is clocked with stores on pools. The stores are opened in far, which is the
// same database.
func onSetClock(d, far *database, change ...func(*pgxpool.Config)) func(t *testing.T) *drivertest.Harness {
	return clocked(d, byPool(far, change...))
}

// stopClock replaces the function that reads the server's clock by one whose time
// stands still until it is moved: what the store answers is then known exactly.
func (p *place) stopClock(t testing.TB) {
	t.Helper()
	p.exec(t, `CREATE TABLE SCHEMA.fake AS SELECT SCHEMA.clock() AS time`)
	p.exec(t, `CREATE OR REPLACE FUNCTION SCHEMA.clock() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT time FROM SCHEMA.fake'`)
}

// clocked makes places whose clock stands still until it is moved.
func clocked(d *database, open func(t *testing.T, schema string) driver.Store) func(t *testing.T) *drivertest.Harness {
	return func(t *testing.T) *drivertest.Harness {
		p := newStore(t, d)
		p.stopClock(t)
		h := harness(d, p.name, t, open)
		h.Now = func() time.Time {
			var now int64
			if err := d.near.QueryRow(t.Context(), "SELECT time FROM "+p.name+".fake").Scan(&now); err != nil {
				t.Error(err)
			}
			return time.UnixMicro(now).UTC()
		}
		h.Advance = func(by time.Duration) { p.exec(t, "UPDATE SCHEMA.fake SET time = time + $1", by.Microseconds()) }
		return h
	}
}

func TestConformance(t *testing.T) {
	d := newDatabase(t)
	drivertest.Run(t, onSetClock(d, d))
}

func TestConformanceInRealTime(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: without a clock that is set")
	drivertest.Run(t, harnesses(newDatabase(t)))
}

func TestConformanceBehindFaults(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: with replies lost")
	d := newDatabase(t)
	drivertest.Run(t, drivertest.WithFaults(onSetClock(d, d)))
}

// Connections are cut now and then, before the server has acted or after.
func TestConformanceBehindNetwork(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: on a bad network")
	d := newDatabase(t)
	drivertest.Run(t, proxy.Disturbed(3, func(t *testing.T, n *proxy.Network) *drivertest.Harness {
		return onSetClock(d, d, through(n))(t)
	}))
}
