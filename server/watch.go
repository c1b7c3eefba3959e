package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
)

// watch serves GET /v1/watch: the signals of the store as server-sent events. The first is
// ready, once the store's subscription is effective. A stream that ends without the event
// end was cut: who reads it subscribes again, and takes that as a signal.
func (s *Server) watch(x *exchange) {
	resource := ""
	err := parseParameters(x.r, map[string]func(string) error{
		"resource": func(v string) error { resource = v; return nil },
	})
	if err == nil {
		err = validName(resource)
	}
	if err != nil {
		x.refuse(wire.KindInvalid, detail(err))
		return
	}
	changed := x.caller.Changed()
	switch {
	case !x.mayWatch(resource):
		x.deny("look", resource, driver.HoldID{}, fmt.Errorf("%w: no right to watch %q", ErrDenied, resource))
		return
	case s.waits.Err() != nil:
		x.draining(wire.KindDraining)
		return
	}
	claim, ok := x.account.Open(budget.Watches, 1)
	if !ok {
		x.busy("too many watches at this server")
		return
	}
	defer claim.Close()
	s.opts.Observer.stream(WatchStream, 1)
	defer s.opts.Observer.stream(WatchStream, -1)

	began := time.Now()
	signals, stop, err := s.lines.Subscribe(x.r.Context(), resource)
	if errors.Is(err, driver.ErrUnsupported) {
		x.refuse(wire.KindUnsupported, "the store sends no signals")
		return
	}
	s.storeCall(x.r.Context(), "watch", began, err)
	if err != nil {
		x.refuseError("watch", err)
		return
	}
	defer stop()
	x.status = http.StatusOK
	x.w.Header().Set("Content-Type", wire.Events)
	x.w.Header().Set("X-Accel-Buffering", "no") // proxies that keep answers back until they are complete
	x.w.WriteHeader(x.status)
	x.pass(signals, changed, resource)
}

func (x *exchange) mayWatch(resource string) bool {
	return x.caller.May(access.Lock, resource) || x.caller.May(access.Look, resource)
}

// The events. A reader of events ignores one without data.
var (
	eventReady  = []byte("event: ready\ndata: {}\n\n")
	eventSignal = []byte("event: signal\ndata: {}\n\n")
	eventEnd    = []byte("event: end\ndata: {}\n\n")
	eventNone   = []byte(": still there\n\n")
)

// pass writes the events until either side ends them.
func (x *exchange) pass(signals, changed <-chan struct{}, resource string) {
	tick := time.NewTicker(wire.KeepAlive)
	defer tick.Stop()
	for event := eventReady; x.write(event); {
		select {
		case _, open := <-signals:
			if !open {
				x.write(eventEnd)
				return
			}
			event = eventSignal
		case <-tick.C:
			event = eventNone
		case <-changed:
			changed = x.caller.Changed()
			if !x.mayWatch(resource) {
				return
			}
			event = eventNone
		case <-x.r.Context().Done():
			return
		case <-x.s.waits.Done():
			return
		}
	}
}
