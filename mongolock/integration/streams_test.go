package mongolock_test

import (
	"context"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/journal"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/mongolock"
)

func logged(j *journal.Journal) *mongolock.Options { return &mongolock.Options{Logger: j.Logger()} }

// The stream ends and cannot be opened for a while. Watchers get a signal when it is open
// again, because they may have missed a release, and then for every release.
func TestStreamIsReopened(t *testing.T) {
	if !engines.MongoDB(t).Emulated {
		t.Skip("the change streams of a real server cannot be taken away")
	}
	coll := newCollection(t)
	near := newStore(t, coll)
	for name, c := range map[string]struct{ away, back func(n *proxy.Network) error }{
		"taken away": {
			func(*proxy.Network) error { return engines.SetMongoChangeStreams(t.Context(), coll.Database(), false) },
			func(*proxy.Network) error { return engines.SetMongoChangeStreams(t.Context(), coll.Database(), true) },
		},
		"connections cut": {
			func(n *proxy.Network) error { n.Refuse(); return nil },
			func(n *proxy.Network) error { n.Accept(); return nil },
		},
		// The driver's monitor notices it, by its own connection.
		"half-open": {
			func(n *proxy.Network) error { n.Set(proxy.Silence); return nil },
			func(n *proxy.Network) error { n.Set(proxy.Fault{}); return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := proxy.New(t)
			var log journal.Journal
			s := mongolock.New(behind(t, n, coll), logged(&log))
			defer closeStore(t, s)
			if err := s.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !log.Has("woken by a change stream") {
				t.Errorf("the log does not say how waiters are woken: %s", &log)
			}
			ref := ask.Granted(t, near, ask.Request(name, "a"))
			signals, err := s.Watch(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.away(n); err != nil {
				t.Fatal(err)
			}
			ask.Until(t, "the loss is noticed", func() bool { return log.Has("change stream failed") })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if _, err := s.Watch(ctx, "another"); err == nil {
				t.Error("Watch returned without a stream")
			}
			cancel()
			release(t, near, true, ref) // this release is not signalled
			if err := c.back(n); err != nil {
				t.Fatal(err)
			}
			ask.Woken(t, signals, "the stream is there again")
			ask.Until(t, "the log says so", func() bool { return log.Has("open again") })
			release(t, near, true, ask.Granted(t, near, ask.Request(name, "b")))
			ask.Woken(t, signals, "a release")
			if !s.Traits().Notifies {
				t.Error("the store does not reopen its stream")
			}
		})
	}
}

// Without change streams, or if the caller wants none, the store says so, in its traits
// and in the log, and works.
func TestNoStreams(t *testing.T) {
	if !engines.MongoDB(t).Emulated {
		t.Skip("the change streams of a real server cannot be taken away")
	}
	coll := newCollection(t)
	if err := engines.SetMongoChangeStreams(t.Context(), coll.Database(), false); err != nil {
		t.Fatal(err)
	}
	for says, poll := range map[string]bool{"there are no change streams": false, "as configured": true} {
		var log journal.Journal
		opts := logged(&log)
		opts.Poll = poll
		s := mongolock.New(engines.MongoThrough(t, coll, options.Client()), opts)
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !log.Has(says) || s.Traits().Notifies {
			t.Errorf("notifies: %v, log: %s, want %q in it", s.Traits().Notifies, &log, says)
		}
		if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("Watch: %v", err)
		}
		release(t, s, true, ask.Granted(t, s, ask.Request("r", "a")))
		closeStore(t, s)
	}
}
