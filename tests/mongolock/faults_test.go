package mongolock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/mongolock"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// behind is a collection that is reached through the network. Its client looks
// for lost servers as often as it may, and leaves no connection open.
func behind(t testing.TB, n *proxy.Network, coll *mongo.Collection) *mongo.Collection {
	t.Helper()
	t.Cleanup(func() { eventually(t, "all connections are closed", n.Idle) })
	return through(t, coll, options.Client().SetDialer(n).
		SetHeartbeatInterval(500*time.Millisecond).SetConnectTimeout(2*time.Second))
}

// eventually polls until is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Errorf("waited a minute in vain until %s", what)
			return
		}
	}
}

func mustBeUnknown(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("there was no error, want that of an unknown outcome")
	}
	for _, definite := range []error{
		driver.ErrHeld, driver.ErrLost, driver.ErrInvalid, driver.ErrUnusable, driver.ErrDamaged, driver.ErrUnsupported,
	} {
		if errors.Is(err, definite) {
			t.Errorf("%v, want an unknown outcome", err)
		}
	}
}

const (
	// patience is how long a call may take that gets no answer.
	patience = 300 * time.Millisecond
	// slack is how much longer it takes on a machine that is busy.
	slack = 10 * time.Second
)

// Whatever becomes of request and reply, the outcome is unknown, the caller waits
// no longer than its context, and a repeat comes to what the call would have.
func TestConnectionFaults(t *testing.T) {
	coll := newCollection(t)
	near := newStore(t, coll)
	for name, f := range map[string]struct {
		fault proxy.Fault
		acts  bool // the server does what it is asked
	}{
		"request cut":     {proxy.CutRequests, false},
		"reply cut":       {proxy.CutReplies, true},
		"requests vanish": {proxy.VanishRequests, false},
		"replies vanish":  {proxy.VanishReplies, true},
		"silence":         {proxy.Silence, false},
	} {
		for operation, prepare := range operations {
			t.Run(name+"/"+operation, func(t *testing.T) {
				t.Parallel()
				n := proxy.New(t)
				far := mongolock.New(behind(t, n, coll), nil)
				defer closeStore(t, far)
				mustAcquire(t, far, request(t.Name()+" first", "a")) // a connection is open
				p := prepare(t, near, t.Name())

				n.Set(f.fault)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				began := time.Now()
				mustBeUnknown(t, p.do(ctx, far))
				if took := time.Since(began); took > patience+slack {
					t.Errorf("took %v, the context ended after %v", took, patience)
				}
				switch {
				case p.done == nil:
				case f.acts:
					eventually(t, "the server has acted", p.done)
				case operation != "acquire that is refused" && p.done():
					t.Error("the server has acted on a request that was lost")
				}

				n.Set(proxy.Fault{})
				mustRepeat(t, far, p)
				p.check()
			})
		}
	}
}

// mustRepeat repeats the call until the outcome is known.
func mustRepeat(t *testing.T, s driver.Store, p prepared) {
	t.Helper()
	eventually(t, "the outcome is known", func() bool {
		err := p.do(t.Context(), s)
		if err != nil {
			mustBeUnknown(t, err)
		}
		return err == nil
	})
}

// A server that cannot be reached, and then can.
func TestRefusedConnections(t *testing.T) {
	coll := newCollection(t)
	near := newStore(t, coll)
	for operation, prepare := range operations {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			n := proxy.New(t)
			far := mongolock.New(behind(t, n, coll), nil)
			defer closeStore(t, far)
			mustAcquire(t, far, request(t.Name()+" first", "a"))
			p := prepare(t, near, t.Name())
			n.Refuse()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			mustBeUnknown(t, p.do(ctx, far))
			n.Accept()
			mustRepeat(t, far, p)
			p.check()
		})
	}
}

// What is slow succeeds.
func TestSlowConnections(t *testing.T) {
	coll := newCollection(t)
	near := newStore(t, coll)
	n := proxy.New(t)
	far := mongolock.New(behind(t, n, coll), nil)
	defer closeStore(t, far)
	n.Set(proxy.Slow(50 * time.Millisecond))
	for operation, prepare := range operations {
		p := prepare(t, near, operation)
		if err := p.do(t.Context(), far); err != nil {
			t.Errorf("%s: %v", operation, err)
		}
		p.check()
	}
}
