package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/strange"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server echoes each line, and counts the lines.
type server struct {
	address string
	lines   atomic.Int64
}

func serve(t *testing.T) *server {
	s := new(server)
	s.address = strange.Server(t, func(conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			s.lines.Add(1)
			if _, err := io.WriteString(conn, line); err != nil {
				return
			}
		}
	})
	return s
}

// flood starts a server that reads nothing, and writes until the client takes no more. full is
// closed then.
func flood(t *testing.T) (s *server, full <-chan struct{}) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stuffed, over := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		writeUntilFull(conn)
		close(stuffed)
		<-over
	})
	t.Cleanup(func() { l.Close(); close(over); all.Wait() })
	return &server{address: l.Addr().String()}, stuffed
}

// writeUntilFull writes until the other side has taken nothing for a while.
func writeUntilFull(conn net.Conn) {
	piece := make([]byte, 1<<20)
	for conn.SetWriteDeadline(time.Now().Add(short)) == nil {
		if _, err := conn.Write(piece); err != nil {
			return
		}
	}
}

// client sends one line after the other and waits for the echo.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, n *proxy.Network, s *server) *client {
	t.Helper()
	conn, err := n.DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{Conn: conn, in: bufio.NewReader(conn)}
}

func (c *client) ask(within time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	_, err := c.in.ReadString('\n')
	return err
}

// ends sends lines until the connection is gone, which takes a moment.
func (c *client) ends(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(long); time.Now().Before(deadline); {
		if err := c.ask(time.Until(deadline)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
	t.Error("the connection was not cut")
}

const (
	long  = 30 * time.Second
	short = 100 * time.Millisecond
)

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault   proxy.Fault
		arrives bool
		silent  bool // the client gets no error
	}{
		"requests cut":    {proxy.CutRequests, false, false},
		"replies cut":     {proxy.CutReplies, true, false},
		"requests vanish": {proxy.VanishRequests, false, true},
		"replies vanish":  {proxy.VanishReplies, true, true},
		"silence":         {proxy.Silence, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			n := proxy.New(t)
			conn, idle := dial(t, n, s), dial(t, n, s)
			for _, c := range []*client{conn, idle} {
				if err := c.ask(long); err != nil {
					t.Fatal(err)
				}
			}
			n.Set(c.fault)
			wait := long
			if c.silent {
				wait = short
			}
			err := conn.ask(wait)
			if err == nil || errors.Is(err, os.ErrDeadlineExceeded) != c.silent {
				t.Errorf("the client got error %v", err)
			}
			want := int64(2)
			if c.arrives {
				want++
			}
			if got := s.lines.Load(); got != want {
				t.Errorf("%d requests arrived, want %d", got, want)
			}
			n.Set(proxy.Fault{})
			conn.ends(t)
			if err := idle.ask(long); err != nil {
				t.Errorf("a connection that lost nothing: %v", err)
			}
		})
	}
}

// Data that no peer reads does not delay the end of a connection.
func TestNobodyReads(t *testing.T) {
	for name, over := range map[string]func(n *proxy.Network, c *client){
		"the client leaves": func(_ *proxy.Network, c *client) { c.Close() },
		"all are refused":   func(n *proxy.Network, c *client) { writeUntilFull(c); n.Refuse() },
	} {
		t.Run(name, func(t *testing.T) {
			n := proxy.New(t)
			s, full := flood(t)
			c := dial(t, n, s)
			<-full
			over(n, c)
			ask.Until(t, "no connection is open", n.Idle)
		})
	}
}

// Nor does delayed data, after Cut.
func TestSlowIsCut(t *testing.T) {
	n := proxy.New(t)
	c := dial(t, n, serve(t))
	n.Set(proxy.Slow(time.Hour))
	if err := c.ask(short); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("error %v within %v", err, short)
	}
	n.Cut()
	ask.Until(t, "no connection is open", n.Idle)
}

// Many pieces take no longer than one.
func TestSlowPieces(t *testing.T) {
	n := proxy.New(t)
	c := dial(t, n, serve(t))
	n.Set(proxy.Slow(short))
	began := time.Now()
	if _, err := io.WriteString(c, strings.Repeat("x", 1<<20)+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*short || took > 30*short {
		t.Errorf("took %v, want %v and little more", took, 2*short)
	}
}

// A rare fault affects some of many requests and replies.
func TestRarely(t *testing.T) {
	s := serve(t)
	n := proxy.New(t)
	n.Set(proxy.Rarely(20))
	failed := 0
	const asked = 200
	for range asked {
		if err := dial(t, n, s).ask(long); err != nil {
			failed++
		}
	}
	if failed == 0 || failed == asked {
		t.Errorf("%d of %d requests failed", failed, asked)
	}
	if got := s.lines.Load(); got == asked || got == asked-int64(failed) {
		t.Errorf("%d of %d requests arrived, %d failed: only one direction has faults", got, asked, failed)
	}
}

// Processes started by tests share the listeners of this one for a moment.
func TestRefuseBesideForks(t *testing.T) {
	n := proxy.New(t)
	n.Address(serve(t).address)
	ctx, cancel := context.WithCancel(t.Context())
	var forks sync.WaitGroup
	defer forks.Wait()
	defer cancel()
	forks.Go(func() {
		for ctx.Err() == nil {
			if err := exec.CommandContext(ctx, os.Args[0], "-test.run=^$").Run(); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for range 1000 {
		n.Refuse()
		n.Accept()
	}
}

// Connections to a new server are refused too, between Refuse and Accept.
func TestRefuseComesFirst(t *testing.T) {
	n := proxy.New(t)
	n.Accept() // without Refuse
	n.Refuse()
	s := serve(t)
	if conn, err := n.DialContext(t.Context(), "tcp", s.address); err == nil {
		conn.Close()
		t.Error("connected")
	}
	n.Accept()
	if err := dial(t, n, s).ask(short); err != nil {
		t.Error(err)
	}
}
