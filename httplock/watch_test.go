package httplock

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/internal/pipenet"
)

// watching is the server's end of watches. Each watch sends the given events, and ends at
// "cut".
type watching struct {
	send    chan string
	opened  atomic.Int32
	ended   atomic.Int32
	refuses atomic.Pointer[reply]
	begins  string // default: the event ready
}

func (s *watching) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.opened.Add(1)
	defer s.ended.Add(1)
	if refusal := s.refuses.Load(); refusal != nil {
		refusal.write(w)
		return
	}
	w.Header().Set("Content-Type", wire.Events+"; charset=utf-8")
	w.Header().Set(wire.StoreHeader, testStoreID)
	begins := s.begins
	if begins == "" {
		begins = "event: ready\ndata:\n\n"
	}
	for text := begins; text != "cut"; {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		select {
		case text = <-s.send:
		case <-r.Context().Done():
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// inBubble runs test with a store on the server, in a bubble. All goroutines must end.
func inBubble(t *testing.T, server *watching, test func(t *testing.T, s *Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server.send = make(chan string)
		p := pipenet.Listen()
		web := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
		go func() { _ = web.Serve(p) }()
		s, err := New("http://127.0.0.1", &Options{Transport: &http.Transport{DialContext: p.DialContext}})
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		_ = web.Close()
	})
}

func watch(ctx context.Context, t *testing.T, s *Store) <-chan struct{} {
	t.Helper()
	ch, err := s.Watch(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// came takes the signals in the channel after everything has settled.
func came(ch <-chan struct{}) (signals int, open bool) {
	synctest.Wait()
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return signals, false
			}
			signals++
		default:
			return signals, true
		}
	}
}

func wantSignals(t *testing.T, what string, ch <-chan struct{}, want int, wantOpen bool) {
	t.Helper()
	if n, open := came(ch); n != want || open != wantOpen {
		t.Errorf("%s: %d signals, open %v; want %d, %v", what, n, open, want, wantOpen)
	}
}

const signal = "event: signal\ndata: {}\n\n"

func TestWatchSignals(t *testing.T) {
	server := &watching{}
	inBubble(t, server, func(t *testing.T, s *Store) {
		ch := watch(t.Context(), t, s)
		wantSignals(t, "before", ch, 0, true)
		for _, text := range []string{":\n\n", "event: newer\n\n", "data: signal\n\n", "id: 1\nretry: 5\n\n"} {
			server.send <- text
		}
		wantSignals(t, "other events", ch, 0, true)
		server.send <- signal
		wantSignals(t, "a signal", ch, 1, true)
		server.send <- strings.ReplaceAll(signal+signal, "\n", "\r\n")
		server.send <- "event:signal\n\n"
		wantSignals(t, "three signals coalesce", ch, 1, true)
		server.send <- "event: signal\n"
		wantSignals(t, "half an event", ch, 0, true)
		server.send <- "\n"
		wantSignals(t, "the other half", ch, 1, true)
	})
}

// A stream that is cut or silent is opened again, which gives a signal, because signals
// may have been lost.
func TestWatchGoesOn(t *testing.T) {
	server := &watching{}
	inBubble(t, server, func(t *testing.T, s *Store) {
		ch := watch(t.Context(), t, s)
		server.send <- "cut"
		wantSignals(t, "cut", ch, 0, true)
		time.Sleep(time.Second)
		wantSignals(t, "open again", ch, 1, true)

		busy := reply{status: 502, media: "text/html"}
		server.refuses.Store(&busy)
		server.send <- "cut"
		before := server.opened.Load()
		time.Sleep(10 * time.Minute)
		wantSignals(t, "the server is away", ch, 0, true)
		if n := server.opened.Load() - before; n < 20 || n > 200 {
			t.Errorf("in ten minutes, %d tries", n)
		}
		server.refuses.Store(nil)
		time.Sleep(20 * time.Second)
		wantSignals(t, "the server is back", ch, 1, true)

		opened := server.opened.Load()
		for range 100 {
			time.Sleep(wire.KeepAlive)
			server.send <- ":\n"
		}
		if n := server.opened.Load(); n != opened {
			t.Errorf("a stream with comments was opened again %d times", n-opened)
		}
		time.Sleep(wire.WatchSilence - time.Second)
		wantSignals(t, "nearly silent", ch, 0, true)
		time.Sleep(2 * time.Second)
		wantSignals(t, "silent", ch, 1, true)
		if n := server.opened.Load(); n != opened+1 {
			t.Errorf("a silent stream was opened again %d times", n-opened)
		}
		if n := server.ended.Load(); n != server.opened.Load()-1 {
			t.Errorf("of %d streams, %d have ended", server.opened.Load(), n)
		}
	})
}

// A stream that goes silent before it has begun is an error after a while, unless the
// caller has given up before, as the Client does.
func TestWatchSilentFromTheStart(t *testing.T) {
	server := &watching{begins: ":\n"}
	inBubble(t, server, func(t *testing.T, s *Store) {
		began := time.Now()
		if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, errSilent) || time.Since(began) != wire.WatchSilence {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := s.Watch(ctx, "r"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if opened, ended := server.opened.Load(), server.ended.Load(); opened != 2 || ended != 2 {
			t.Errorf("of %d streams, %d have ended", opened, ended)
		}
	})
}

// After the store's last signal the channel is closed, and the stream is not opened
// again.
func TestWatchEnds(t *testing.T) {
	for name, end := range map[string]func(server *watching, s *Store){
		"by the server": func(server *watching, _ *Store) { server.send <- "event: end\ndata:\n\n" },
		"by Close": func(_ *watching, s *Store) {
			if err := s.Close(); err != nil {
				panic(err)
			}
		},
		"as it cannot go on": func(server *watching, _ *Store) {
			r := ours(wire.NewRefusal(wire.KindUnsupported, "none any more"))
			server.refuses.Store(&r)
			server.send <- "cut"
			time.Sleep(time.Second)
		},
	} {
		server := &watching{}
		inBubble(t, server, func(t *testing.T, s *Store) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ch := watch(ctx, t, s)
			opened := server.opened.Load()
			end(server, s)
			wantSignals(t, name, ch, 0, false)
			time.Sleep(time.Hour)
			if n := server.opened.Load() - opened; n > 1 || n == 1 && name != "as it cannot go on" {
				t.Errorf("%s: opened again %d times", name, n)
			}
		})
	}
	server := &watching{}
	inBubble(t, server, func(t *testing.T, s *Store) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantSignals(t, "of a closed store", watch(t.Context(), t, s), 0, false)
	})
}

// A watch ends with its ctx, while others continue.
func TestWatchContext(t *testing.T) {
	server := &watching{}
	inBubble(t, server, func(t *testing.T, s *Store) {
		ctx, cancel := context.WithCancel(t.Context())
		watch(ctx, t, s)
		other := watch(t.Context(), t, s)
		cancel()
		synctest.Wait()
		if opened, ended := server.opened.Load(), server.ended.Load(); opened != 2 || ended != 1 {
			t.Errorf("of %d streams, %d have ended", opened, ended)
		}
		server.send <- signal
		wantSignals(t, "the other one", other, 1, true)
	})
}

// A server that refuses a watch, because it has none or for another reason, is not asked
// again.
func TestWatchRefused(t *testing.T) {
	for kind, want := range map[wire.Kind]error{
		wire.KindUnsupported: driver.ErrUnsupported, wire.KindDenied: driver.ErrUnusable, wire.KindBusy: nil,
	} {
		server := &watching{}
		r := ours(wire.NewRefusal(kind, "because"))
		server.refuses.Store(&r)
		inBubble(t, server, func(t *testing.T, s *Store) {
			_, err := s.Watch(t.Context(), "r")
			if err == nil || want != nil && !errors.Is(err, want) || want == nil && isDefinite(err) {
				t.Errorf("%s: %v", kind, err)
			}
			time.Sleep(time.Hour)
			if n := server.opened.Load(); n != 1 {
				t.Errorf("%s: %d requests", kind, n)
			}
		})
	}
	server := &watching{begins: "event: end\n\n"}
	inBubble(t, server, func(t *testing.T, s *Store) {
		if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("of a store whose signals have ended: %v", err)
		}
	})
}
