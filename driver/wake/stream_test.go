package wake

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// server is what a Stream is opened to.
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

// One stream serves all; when it has failed, and is there again, all are signalled.
func TestStreamReopens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var srv server
		s := srv.stream()
		defer s.Close()
		chans := []<-chan struct{}{watch(t, s), watch(t, s)}
		if n := srv.opened.Load(); n != 1 {
			t.Errorf("opened %d times", n)
		}
		srv.refuse(errGone)
		srv.ends <- errGone
		synctest.Wait()
		if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, errGone) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Hour)
		if n := srv.opened.Load(); n < 100 || n > 1000 {
			t.Errorf("in an hour, opened %d times", n)
		}
		for _, ch := range chans {
			select {
			case <-ch:
				t.Error("signalled while there is no stream")
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
				t.Error("closed")
			}
		}
		if n := srv.again.Load(); n != srv.opened.Load()-1 {
			t.Errorf("of %d openings %d were said to be repeated", srv.opened.Load(), n)
		}
	})
}

// A stream without a log of its own fails into the default one.
func TestStreamWithoutLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var srv server
		s := srv.stream()
		s.Log = nil
		defer s.Close()
		ch := watch(t, s)
		srv.ends <- errGone
		if _, open := <-ch; !open {
			t.Error("closed")
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
			t.Error("a signal")
		}
		for range 2 {
			if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("error %v", err)
			}
		}
		time.Sleep(time.Hour)
		if n := srv.opened.Load(); n != 2 {
			t.Errorf("opened %d times", n)
		}
	})
}

func TestStreamClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var never server
		s := never.stream()
		s.Close()
		if _, open := <-watch(t, s); open || never.opened.Load() != 0 {
			t.Errorf("a signal, or an opening, of what is closed")
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
				t.Errorf("%s: a signal", name)
			}
		}
	})
}
