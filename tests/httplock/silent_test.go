package httplock_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// mutes are connections that can fall silent: what is sent is lost, and nothing comes.
type mutes struct {
	mu   sync.Mutex
	open []*mute
}

type mute struct {
	net.Conn
	silent chan struct{} // closed when it is
	gone   chan struct{}
	once   sync.Once
}

func (m *mutes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &mute{Conn: conn, silent: make(chan struct{}), gone: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = append(m.open, c)
	return c, nil
}

// silence makes all present connections fall silent.
func (m *mutes) silence() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n = len(m.open)
	for _, c := range m.open {
		close(c.silent)
	}
	m.open = nil
	return n
}

func (c *mute) Write(p []byte) (int, error) {
	select {
	case <-c.silent:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}

func (c *mute) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.silent:
		<-c.gone
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *mute) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// The connections under a hundred holds fall silent. New ones carry the renewals in time.
func TestSilentConnectionsLoseNone(t *testing.T) {
	const n, ttl = 100, 10 * time.Second
	store := memlock.New(nil)
	s := newSite(t, store, nil)
	var conns mutes
	far, err := httplock.New(s.url, &httplock.Options{Transport: &http.Transport{DialContext: conns.dial}})
	if err != nil {
		t.Fatal(err)
	}
	c := holdfast.New(far, nil)
	var holds []*holdfast.Hold
	for i := range n {
		h, err := c.Lock(t.Context(), fmt.Sprint("r", i), &holdfast.LockOptions{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	renewed := func() (all map[string]time.Time) {
		all = make(map[string]time.Time)
		for st, err := range store.List(t.Context(), driver.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if !st.Renewed.IsZero() && st.Resource[0] == 'r' {
				all[st.Resource] = st.Renewed
			}
		}
		return all
	}
	ask.Until(t, "all were renewed", func() bool { return len(renewed()) == n })
	if conns.silence() == 0 {
		t.Error("there is no connection")
	}
	before := renewed()
	ask.Until(t, "all are renewed again, twice", func() bool {
		for r, at := range renewed() {
			if at.Sub(before[r]) < ttl/2 {
				return false
			}
		}
		return true
	})
	for _, h := range holds {
		if err := context.Cause(h.Context()); err != nil {
			t.Errorf("%s is lost: %v", h.Resource(), err)
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Errorf("unlock of %s: %v", h.Resource(), err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := far.Close(); err != nil {
		t.Error(err)
	}
}
