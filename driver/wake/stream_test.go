package wake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// server plays the server of a Stream.
type server struct {
	opened, again atomic.Int32
	refuses       atomic.Pointer[error]
	ends          chan error
}

func (s *server) stream() *Stream {
	s.ends = make(chan error)
	return &Stream{Name: "stream", Log: slog.New(slog.DiscardHandler), Open: func(ctx context.Context, again bool) (func() error, error) {
		s.opened.Add(1)
		if again {
			s.again.Add(1)
		}
		if err := s.refuses.Load(); err != nil {
			return nil, *err
		}
		return func() error {
			select {
			case err := <-s.ends:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil
	}}
}

func (s *server) refuse(err error) { s.refuses.Store(&err) }

var errGone = errors.New("gone")

func watch(t *testing.T, s *Stream) <-chan struct{} {
	t.Helper()
	ch, err := s.Watch(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// One stream serves all watchers. When it is open again after a failure, all get a signal.
func TestStreamReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var srv server
		s := srv.stream()
		defer s.Close()
		chans := []<-chan struct{}{watch(t, s), watch(t, s)}
		if n := srv.opened.Load(); n != 1 {
			t.Errorf("the stream was opened %d times", n)
		}
		srv.refuse(errGone)
		srv.ends <- errGone
		synctest.Wait()
		if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, errGone) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Hour)
		if n := srv.opened.Load(); n < 100 || n > 1000 {
			t.Errorf("the stream was opened %d times in an hour", n)
		}
		for _, ch := range chans {
			select {
			case <-ch:
				t.Error("a signal came without a stream")
			default:
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Watch(ctx, "r"); !errors.Is(err, context.Canceled) {
			t.Errorf("with a dead ctx: %v", err)
		}
		srv.refuses.Store(nil)
		for _, ch := range chans {
			if _, open := <-ch; !open {
				t.Error("the channel was closed")
			}
		}
		if n := srv.again.Load(); n != srv.opened.Load()-1 {
			t.Errorf("%d openings, %d with again", srv.opened.Load(), n)
		}
	})
}

// A stream without a log of its own uses the default one.
func TestStreamWithoutLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var srv server
		s := srv.stream()
		s.Log = nil
		defer s.Close()
		ch := watch(t, s)
		srv.ends <- errGone
		if _, open := <-ch; !open {
			t.Error("the channel was closed")
		}
	})
}

// An unsupported stream is not opened again.
func TestStreamUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var srv server
		s := srv.stream()
		defer s.Close()
		ch := watch(t, s)
		srv.refuse(driver.ErrUnsupported)
		srv.ends <- errGone
		if _, open := <-ch; open {
			t.Error("a signal came")
		}
		for range 2 {
			if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("error %v", err)
			}
		}
		time.Sleep(time.Hour)
		if n := srv.opened.Load(); n != 2 {
			t.Errorf("the stream was opened %d times", n)
		}
	})
}

func TestStreamClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var never server
		s := never.stream()
		s.Close()
		if _, open := <-watch(t, s); open || never.opened.Load() != 0 {
			t.Errorf("a signal or an opening after Close")
		}
		for name, prepare := range map[string]func(srv *server){
			"open":   func(*server) {},
			"failed": func(srv *server) { srv.refuse(errGone); srv.ends <- errGone; synctest.Wait() },
		} {
			var srv server
			s := srv.stream()
			ch := watch(t, s)
			prepare(&srv)
			s.Close()
			s.Close()
			if _, open := <-ch; open {
				t.Errorf("%s: a signal came", name)
			}
		}
	})
}

// blocking is a slog.Handler that blocks.
type blocking struct{ until chan struct{} }

func (b blocking) Enabled(context.Context, slog.Level) bool { <-b.until; return true }

func (b blocking) Handle(context.Context, slog.Record) error { <-b.until; return nil }

func (b blocking) WithAttrs([]slog.Attr) slog.Handler { return b }

func (b blocking) WithGroup(string) slog.Handler { return b }

// A blocking handler delays neither the reopening nor Close.
func TestStreamWithLoggerThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		defer close(until)
		var srv server
		s := srv.stream()
		s.Log = slog.New(blocking{until})
		ch := watch(t, s)
		for range 2 * mostLines {
			srv.ends <- errGone
			<-ch // it is open again
			time.Sleep(maxReopen)
		}
		s.Logger().Warn("a line of the store's")
		s.Close()
	})
}

// Records are written in order, with the attributes and groups of their logger.
func TestLogKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := newLog(slog.New(slog.NewTextHandler(&text, nil))).With("a", 1).WithGroup("g")
		var want []string
		for i := range 10 {
			log.Info("line", "i", i)
			log.Debug("is not enabled")
			want = append(want, fmt.Sprintf("level=INFO msg=line a=1 g.i=%d", i))
		}
		synctest.Wait()
		var got []string
		for line := range strings.Lines(text.String()) {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			got = append(got, rest)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}
