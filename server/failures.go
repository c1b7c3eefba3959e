package server

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// failures tells the log of calls of the store that fail: of the first of a kind at once, and
// then once a minute how many there were, as long as there are some.
type failures struct {
	log *slog.Logger

	mu     sync.Mutex
	all    map[string]*failure // by operation and kind
	closed bool
}

// failure is a kind that the log was told of less than failurePause ago.
type failure struct {
	op    string
	timer *time.Timer
	more  int   // since then
	last  error // of these
}

// failurePause is how long after a failure the log is not told of the same one.
const failurePause = time.Minute

func (f *failures) note(op string, err error) {
	kind := op + " " + string(wire.KindOf(err))
	f.mu.Lock()
	known := f.all[kind]
	switch {
	case known != nil:
		known.more, known.last = known.more+1, err
	case !f.closed:
		f.all[kind] = &failure{op: op, timer: time.AfterFunc(failurePause, func() { f.tell(kind) })}
	}
	f.mu.Unlock()
	if known == nil {
		f.log.Warn("holdfast server: the store failed", "op", op, "error", err)
	}
}

// tell tells the log of those since it was told last.
func (f *failures) tell(kind string) {
	f.mu.Lock()
	known := f.all[kind]
	more, last := known.more, known.last
	if known.more = 0; more == 0 || f.closed {
		delete(f.all, kind)
	} else {
		known.timer.Reset(failurePause)
	}
	f.mu.Unlock()
	if more > 0 {
		f.log.Warn("holdfast server: the store failed", "op", known.op, "error", last, "more since the last such line", more)
	}
}

// close tells the log of the rest.
func (f *failures) close() {
	f.mu.Lock()
	f.closed = true
	left := maps.Clone(f.all)
	f.mu.Unlock()
	for kind, known := range left {
		if known.timer.Stop() {
			f.tell(kind)
		}
	}
}
