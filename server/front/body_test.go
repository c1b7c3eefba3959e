package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/internal/pipenet"
)

// sendRaw sends the text on a connection of its own, and returns all that is answered.
func sendRaw(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	check(t, err)
	defer c.Close()
	_, err = io.WriteString(c, text)
	check(t, err)
	got, err := io.ReadAll(c)
	check(t, err)
	return string(got)
}

// endless is a body that never ends, and counts what is read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func TestHugeBody(t *testing.T) {
	addr := start(t, whoami, nil)
	c := client(t, nil)
	for name, length := range map[string]int64{"with its length": 1 << 30, "without": -1} {
		t.Run(name, func(t *testing.T) {
			body := new(endless)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+wire.AcquirePath, io.LimitReader(body, 1<<30))
			check(t, err)
			r.ContentLength = length
			r.Header.Set("Content-Type", "application/json")
			got, err := c.Do(r)
			if err != nil {
				// The server closes a connection on which more comes than it wants: the
				// answer may be lost with it.
				t.Log(err)
			} else if a := readAnswer(t, got); a.kind != wire.KindTooLarge {
				t.Errorf("%d: %s", a.status, a.body)
			}
			// What was sent beyond the limit is in buffers of the system.
			if n := body.read.Load(); n > wire.MaxBody+64<<20 {
				t.Errorf("the server took %d bytes", n)
			}
		})
	}
	// The largest one that is allowed.
	if got := send(t, c, "POST", "http://"+addr+wire.AcquirePath, strings.Repeat(" ", wire.MaxBody), "Content-Type: application/json"); got.status != 200 {
		t.Errorf("%d: %s", got.status, got.body)
	}
}

func TestSlowRequests(t *testing.T) {
	const head = "POST /v1/acquire HTTP/1.1\r\nHost: pipe\r\nContent-Type: application/json\r\nContent-Length: 10\r\n"
	for name, c := range map[string]struct {
		sent  string        // at once; then a byte each 4 s
		drip  string        //
		until time.Duration // the connection is closed
		says  string
	}{
		"headers":           {"GET / HTTP/1.1\r\nHost: pipe\r\n", "X-A: bcdefghijklmnopqrst", 10 * time.Second, ""},
		"a body":            {head + "\r\n", "{        }", 30 * time.Second, "413"}, // as whoami calls all errors
		"a body unread":     {strings.Replace(head, "pipe", "evil", 1) + "\r\n", "{        }", 30 * time.Second, "421"},
		"the next request":  {head + "\r\n{        }", "", 120 * time.Second, "200"},
		"nothing":           {"", "", 10 * time.Second, ""},
		"half a first line": {"GET /", "aaaaaaaaaaaaaaaaaaaaa", 10 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pipenet.Listen()
				serve(t, l, newFront(t, whoami, &Options{Hosts: []string{"pipe"}}))
				conn, err := l.DialContext(t.Context(), "", "")
				check(t, err)
				var sender sync.WaitGroup
				defer sender.Wait()
				defer conn.Close()
				began := time.Now()
				sender.Go(func() {
					_, err := io.WriteString(conn, c.sent)
					for i := 0; i < len(c.drip) && err == nil; i++ {
						time.Sleep(4 * time.Second)
						_, err = io.WriteString(conn, c.drip[i:i+1])
					}
				})
				text, _ := io.ReadAll(conn)
				if took := time.Since(began); took < c.until || took > c.until+4*time.Second {
					t.Errorf("closed after %v, want %v: %q", took, c.until, text)
				}
				if c.says != "" && !strings.HasPrefix(string(text), "HTTP/1.1 "+c.says) {
					t.Errorf("answer %q", text)
				}
			})
		})
	}
}

// A wait may take longer than a body, and ends when the caller hangs up.
func TestWaitBehindBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			select {
			case <-r.Context().Done():
				err = errors.Join(err, context.Cause(r.Context()))
			case <-time.After(time.Minute):
			}
			ended <- err
			_, _ = fmt.Fprintf(w, "read %d", len(text))
		})
		l := pipenet.Listen()
		serve(t, l, newFront(t, next, &Options{Hosts: []string{"pipe"}}))
		const head = "POST /v1/acquire HTTP/1.1\r\nHost: pipe\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
		conn, err := l.DialContext(t.Context(), "", "")
		check(t, err)
		in := bufio.NewReader(conn)
		for range 2 { // on one connection
			_, err := io.WriteString(conn, head)
			check(t, err)
			got, err := http.ReadResponse(in, nil)
			check(t, err)
			text, err := io.ReadAll(got.Body)
			check(t, errors.Join(err, got.Body.Close(), <-ended))
			if string(text) != "read 2" {
				t.Errorf("answer %q", text)
			}
		}
		_, err = io.WriteString(conn, head)
		check(t, err)
		began := time.Now()
		check(t, conn.Close())
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
			t.Errorf("the wait of a caller that hung up: %v after %v", err, time.Since(began))
		}
	})
}

// Connections that never say anything complete keep nobody else out, and end.
func TestSlowloris(t *testing.T) {
	count := 2000
	if testing.Short() {
		count = 200
	}
	l := listen(t)
	s := Server(newFront(t, whoami, nil), nil)
	s.ReadHeaderTimeout = 2 * time.Second
	run(t, s, func() error { return s.Serve(l) })
	addr := l.Addr().String()
	var open []net.Conn
	for range count {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		check(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+addr+"\r\nX-A: b")
		check(t, err)
		open = append(open, c)
	}
	if got := send(t, client(t, nil), "GET", "http://"+addr+"/healthz", ""); got.status != 200 {
		t.Errorf("%d: %s", got.status, got.body)
	}
	check(t, open[0].SetReadDeadline(time.Now().Add(time.Minute)))
	for _, c := range open {
		_, err := io.Copy(io.Discard, c)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			t.Fatal("a connection is still open after a minute")
		}
	}
}
