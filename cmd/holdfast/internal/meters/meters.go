// Package meters counts what a server does, and shows it to Prometheus. No label has the name
// of a resource or a caller, or an ID: who reads the metrics learns how busy the server is,
// and how well it does, but not what is locked.
package meters

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/audit"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/sight"
)

// Meters are the metrics of one server. All methods may be called concurrently, but those
// that begin with Show before all others.
type Meters struct {
	requests *family
	took     *family
	refused  *family
	waits    *family
	streams  *family
	calls    *family
	callTook *family
	also     []func(page *bytes.Buffer) // what others know
}

// New returns meters that have counted nothing.
func New() *Meters {
	m := &Meters{
		requests: newFamily(counter, "holdfast_server_requests_total",
			"Requests that were answered, by path and outcome: ok, or the kind of the refusal.", "route", "outcome"),
		took: newFamily(histogram, "holdfast_server_request_duration_seconds",
			"Time from the receipt of a request to its answer, waits and streams included.", "route"),
		refused: newFamily(counter, "holdfast_server_refused_total",
			"Requests that were refused before anybody looked at what they ask for.", "reason"),
		waits: newFamily(gauge, "holdfast_server_waits",
			"Acquires that wait at present."),
		streams: newFamily(gauge, "holdfast_server_streams",
			"Lists and watches that are being answered.", "kind"),
		calls: newFamily(counter, "holdfast_server_store_calls_total",
			"Calls of the store, by operation and outcome.", "op", "outcome"),
		callTook: newFamily(histogram, "holdfast_server_store_call_duration_seconds",
			"Time that calls of the store took.", "op"),
	}
	m.waits.add(0)
	m.streams.add(0, string(server.ListStream))
	m.streams.add(0, string(server.WatchStream))
	for _, kind := range frontKinds {
		m.refused.add(0, string(kind))
	}
	return m
}

// frontKinds are those of what is refused for what it is.
var frontKinds = [...]wire.Kind{wire.KindAnonymous, wire.KindDenied, wire.KindMediaType, wire.KindMisdirected, wire.KindBusy}

// ShowServer shows whether the server grants locks, as far as it knows.
func (m *Meters) ShowServer(ready func() bool, state func() health.State) {
	m.also = append(m.also, func(page *bytes.Buffer) {
		s := state()
		failing := 0.0
		if s.Level == health.Failing || s.Level == health.Starting {
			failing = s.At.Sub(s.Since).Seconds()
		}
		now(page, gauge, "holdfast_server_ready",
			"Whether /readyz answers 200: 0 until the store is prepared, if it was replaced, and once the server ends.", oneIf(ready()))
		now(page, gauge, "holdfast_server_store_replaced",
			"Whether the store is another one, or has lost its data: 1 if so, and then no lock is granted.", oneIf(s.Level == health.Replaced))
		now(page, gauge, "holdfast_server_store_failing_seconds",
			"For how long no call of the store has been answered, or none of one kind that locks need: 0 if they are.", failing)
	})
}

// ShowLooks shows what the last look at the store has seen, if there was one.
func (m *Meters) ShowLooks(last func() *sight.Sight) {
	m.also = append(m.also, func(page *bytes.Buffer) {
		s := last()
		if s.At.IsZero() {
			return
		}
		now(page, gauge, "holdfast_server_stuck",
			"Resources for which somebody waits though the holder is gone, in the last look at the store.", float64(s.Stuck()))
		now(page, gauge, "holdfast_server_look_age_seconds",
			"How long ago the last look at the store began: it is looked at while somebody watches, or a history is kept.", time.Since(s.At).Seconds())
	})
}

// ShowAudit shows how well the audit is kept.
func (m *Meters) ShowAudit(log *audit.Log) {
	m.also = append(m.also, func(page *bytes.Buffer) {
		now(page, counter, "holdfast_server_audit_dropped_total",
			"Events that are missing in the audit file, because it could not be written, or not fast enough.", float64(log.Dropped()))
		now(page, gauge, "holdfast_server_audit_ok",
			"Whether the audit file can be written now: 0 if not, and then nothing is released by force once its reserve is used up.", oneIf(log.Err() == nil))
	})
}

// ShowHistory shows how well the history is kept.
func (m *Meters) ShowHistory(state func() history.State) {
	m.also = append(m.also, func(page *bytes.Buffer) {
		s := state()
		now(page, counter, "holdfast_server_history_events_total",
			"Beginnings and ends of holds that were written to the history, those of one hold together if it was short.", float64(s.Noted))
		now(page, counter, "holdfast_server_history_dropped_total",
			"Beginnings and ends of holds that are missing in the history, because it could not be written, or not fast enough.", float64(s.Dropped))
		now(page, gauge, "holdfast_server_history_ok",
			"Whether the history can be written now: 0 if not.", oneIf(s.Err == nil))
	})
}

// ShowAuthFile shows whether the auth file is in force as it is: err returns nil then.
func (m *Meters) ShowAuthFile(err func() error) {
	m.also = append(m.also, func(page *bytes.Buffer) {
		now(page, gauge, "holdfast_server_auth_file_ok",
			"Whether the auth file is in force as it is now: 0 if it is broken, and its last good state counts.", oneIf(err() == nil))
	})
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Observer returns what tells the meters about a server.
func (m *Meters) Observer() *server.Observer {
	return &server.Observer{
		Request: func(route string, _ int, kind wire.Kind, took time.Duration) {
			outcome := "ok"
			if kind != "" {
				outcome = string(kind)
			}
			m.requests.add(1, route, outcome)
			m.took.observe(took.Seconds(), route)
		},
		Wait:   func(change int) { m.waits.add(float64(change)) },
		Stream: func(kind server.Stream, change int) { m.streams.add(float64(change), string(kind)) },
		StoreCall: func(_ context.Context, op string, took time.Duration, err error) {
			m.calls.add(1, op, outcome(err))
			m.callTook.observe(took.Seconds(), op)
		},
	}
}

// outcome names what came of a call of the store.
func outcome(err error) string {
	kind := wire.KindOf(err)
	switch {
	case err == nil:
		return "ok"
	case kind != wire.KindUnknown:
	case errors.Is(err, context.Canceled):
		return "canceled" // by the caller, which hung up
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return string(kind)
}

// Refused counts a request that was refused before the server got it.
func (m *Meters) Refused(kind wire.Kind) { m.refused.add(1, string(kind)) }

// writeFiles writes how many files the process has open, which limit its connections, under the
// names that such metrics have in other programs.
func writeFiles(page *bytes.Buffer) {
	if open, err := os.ReadDir("/dev/fd"); err == nil {
		now(page, gauge, "process_open_fds", "Open files and connections.", float64(len(open)))
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		now(page, gauge, "process_max_fds", "Files and connections that may be open.", float64(limit.Cur))
	}
}

// ServeHTTP answers with the metrics of the server, in the text format of
// Prometheus.
func (m *Meters) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	for _, f := range []*family{m.requests, m.took, m.refused, m.waits, m.streams, m.calls, m.callTook} {
		f.write(&page)
	}
	for _, write := range m.also {
		write(&page)
	}
	writeFiles(&page)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // not all writers have one
	_, _ = w.Write(page.Bytes())                                                         // there is nobody to tell
}
