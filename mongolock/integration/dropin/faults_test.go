package dropin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

// If the server is gone, every function returns an error that is not an answer.
func TestServerGone(t *testing.T) {
	server := engines.NewMongoServer(t)
	client, err := mongo.Connect(options.Client().ApplyURI(server.URL).SetServerSelectionTimeout(200 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) }()
	coll := client.Database("db").Collection("locks")
	used, fresh := lock.NewClient(coll), lock.NewClient(coll)
	untilDone(t, func() error { return used.XLock(t.Context(), "r", "a", lock.LockDetails{}) })
	server.Stop()
	for name, c := range map[string]*lock.Client{"that was used": used, "that is new": fresh} {
		for what, err := range everything(t.Context(), c, "r", "a") {
			failed(t, what+" by a client "+name, err)
		}
		failed(t, "CreateIndexes", c.CreateIndexes(t.Context()))
		purged, err := lock.NewPurger(c).Purge(t.Context())
		failed(t, "Purge", err)
		want(t, purged)
	}
	// Each use tries again what failed.
	server.Restart(t)
	untilDone(t, func() error { return fresh.XLock(t.Context(), "r", "a", lock.LockDetails{}) })
}

// untilDone tries until a server that has just started answers.
func untilDone(t *testing.T, try func() error) {
	t.Helper()
	late := time.Now().Add(time.Minute)
	for err := try(); err != nil && !errors.Is(err, lock.ErrAlreadyLocked); err = try() {
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// loser is a dialer of a network that loses the reply to the next command with a given
// name, after the server has executed it. It also cuts a number of connections on which
// an update is sent, before it reaches the server.
type loser struct {
	command atomic.Pointer[string]
	lost    func() // called when the reply has arrived; may be nil
	cuts    atomic.Int64
}

func (l *loser) lose(command string) { l.command.Store(&command) }

// DialContext implements options.ContextDialer.
func (l *loser) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &losingConn{Conn: conn, l: l}, err
}

type losingConn struct {
	net.Conn
	l    *loser
	lose atomic.Bool
}

func (c *losingConn) Write(p []byte) (int, error) {
	command := c.l.command.Load()
	if command != nil && bytes.Contains(p, append([]byte(*command), 0)) && c.l.command.CompareAndSwap(command, nil) {
		c.lose.Store(true)
	} else if bytes.Contains(p, []byte("\x02update\x00")) && c.l.cuts.Add(-1) >= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return c.Conn.Write(p)
}

func (c *losingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.lose.Load() || n == 0 {
		return n, err
	}
	if c.l.lost != nil {
		c.l.lost()
	}
	return 0, io.ErrUnexpectedEOF
}

// losing returns a client of the drop-in on such a network, which has found its indexes.
// Retryable writes are off, because they would hide losses.
func (f *fixture) losing(d options.ContextDialer) *lock.Client {
	f.t.Helper()
	opts := options.Client().SetDialer(d).SetRetryWrites(false).SetRetryReads(false)
	c := lock.NewClient(engines.MongoThrough(f.t, f.coll, opts))
	if err := c.CreateIndexes(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// A lost reply is an error, and leaves no lock behind that blocks others.
func TestReplyLost(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	var d loser
	c := f.losing(&d)
	d.lose("findAndModify")
	failed(t, "XLock", c.XLock(ctx, "r", "a", lock.LockDetails{}))
	want(t, f.status(lock.Filter{}))
	d.lose("findAndModify")
	failed(t, "SLock", c.SLock(ctx, "r", "a", lock.LockDetails{}, -1))
	want(t, f.status(lock.Filter{}))

	f.x("r1", "a", 100)
	f.s("r2", "a", 100, -1)
	d.lose("update")
	renewed, err := c.Renew(ctx, "a", 200)
	failed(t, "Renew", err)
	want(t, renewed)
	want(t, must[[]lock.LockStatus](t)(c.Renew(ctx, "a", 200)), "r2/a", "r1/a")

	d.lose("find")
	_, err = c.Unlock(ctx, "a")
	failed(t, "Unlock that cannot read", err)
	d.lose("update")
	unlocked, err := c.Unlock(ctx, "a")
	failed(t, "Unlock", err)
	want(t, unlocked)
	want(t, must[[]lock.LockStatus](t)(c.Unlock(ctx, "a")), "r1/a") // as documented: call it again
	want(t, f.status(lock.Filter{}))
	d.lose("find")
	_, err = c.Status(ctx, lock.Filter{})
	failed(t, "Status", err)
}

// A lock whose grant did not arrive is released, even if the network fails again.
func TestGivenBackBeyondFaults(t *testing.T) {
	f := newFixture(t)
	var d loser
	c := f.losing(&d)
	d.lose("findAndModify")
	d.cuts.Store(3)
	failed(t, "XLock", c.XLock(t.Context(), "r", "a", lock.LockDetails{}))
	if n := d.cuts.Load(); n >= 0 {
		t.Errorf("%d cuts are left: the lock was not given back", n)
	}
	want(t, f.status(lock.Filter{}))
}

// A request that arrives after the release leaves no lock behind either, however long the
// network was down before.
func TestRequestArrivesLate(t *testing.T) {
	for name, outage := range map[string]time.Duration{"at once": 0, "after an outage": 1200 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			d := detour{outage: outage}
			c := f.losing(&d)
			d.armed.Store(true)
			failed(t, "XLock", c.XLock(t.Context(), "r", "a", lock.LockDetails{}))
			if d.kept.Load() != nil {
				t.Error("the release was not repeated after it found nothing")
			}
			want(t, f.status(lock.Filter{}))
			f.x("r", "b", 0)
		})
	}
}

// detour delays a findAndModify. It arrives after the first update, which found nothing,
// and before the second one. No update gets through until the outage is over.
type detour struct {
	outage  time.Duration
	armed   atomic.Bool
	since   atomic.Pointer[time.Time]
	updates atomic.Int64
	kept    atomic.Pointer[func() error]
}

// down reports whether the outage that began with the findAndModify still lasts.
func (d *detour) down() bool {
	since := d.since.Load()
	return since != nil && time.Since(*since) < d.outage
}

// arrive returns when the server has received and executed it.
func (d *detour) arrive() error {
	if send := d.kept.Swap(nil); send != nil {
		return (*send)()
	}
	return nil
}

// DialContext implements options.ContextDialer.
func (d *detour) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &detourConn{Conn: conn, d: d}, err
}

type detourConn struct {
	net.Conn
	d    *detour
	held atomic.Bool // it stays open until the request has arrived
}

func (c *detourConn) Write(p []byte) (int, error) {
	switch {
	case bytes.Contains(p, []byte("findAndModify\x00")) && c.d.armed.CompareAndSwap(true, false):
		c.held.Store(true)
		request := bytes.Clone(p)
		send := func() error {
			defer c.Conn.Close()
			_, err := c.Conn.Write(request)
			if err == nil {
				_, err = c.Read(make([]byte, 1)) // the answer
			}
			return err
		}
		c.d.kept.Store(&send)
		now := time.Now()
		c.d.since.Store(&now)
		return 0, io.ErrUnexpectedEOF
	case !bytes.Contains(p, []byte("\x02update\x00")):
	case c.d.down():
		return 0, io.ErrUnexpectedEOF
	case c.d.updates.Add(1) == 2:
		if err := c.d.arrive(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

func (c *detourConn) Close() error {
	if c.held.Load() {
		return nil
	}
	return c.Conn.Close()
}

// A context that ends while the server works leaves no lock behind.
func TestCancelledLock(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := &loser{lost: cancel}
	c := f.losing(d)
	d.lose("findAndModify")
	if err := c.XLock(ctx, "r", "a", lock.LockDetails{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	want(t, f.status(lock.Filter{}))
	f.x("r", "b", 0)
}

// Damage that comes between a look and the renewal is reported.
func TestDamageWhileRenewing(t *testing.T) {
	f := newFixture(t)
	f.x("r", "a", 100)
	c := f.after("find", func(n int) {
		if n > 1 {
			return
		}
		damage := bson.M{"$set": bson.M{"exclusive.expiresAt": "soon"}}
		if _, err := f.coll.UpdateOne(t.Context(), bson.M{"resource": "r"}, damage); err != nil {
			t.Error(err)
		}
	})
	renewed, err := c.Renew(t.Context(), "a", 200)
	failed(t, "Renew", err)
	want(t, renewed)
	if !errors.Is(err, driver.ErrDamaged) {
		t.Errorf("error %v, want ErrDamaged", err)
	}
}
