package httpfence

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// visit is a request in the gate.
type visit struct {
	Token
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when it leaves
	over   chan struct{} // closed when no newer request waits for it any longer
	ending bool          // end was called; guarded by gate.mu
	taken  atomic.Bool   // a request with a newer token has come

	// mu keeps the request from leaving while its connection is used: that may be
	// done only until its handler returns.
	mu      sync.Mutex
	left    bool
	w       http.ResponseWriter
	single  bool // one request at a time has the connection: HTTP/1
	unread  bool // there may be more of the body
	reading int  // how many calls wait for more of it
	cut     bool // a deadline was set
}

func newVisit(ctx context.Context, w http.ResponseWriter, r *http.Request, t Token) *visit {
	v := &visit{
		Token: t, ended: make(chan struct{}), over: make(chan struct{}),
		w: w, single: r.ProtoMajor < 2, unread: r.Body != nil && r.Body != http.NoBody,
	}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	return v
}

// leave is called when the service has returned, by the goroutine that called it.
func (v *visit) leave() {
	v.mu.Lock()
	v.left = true
	if v.cut && v.single {
		closeAfterReply(v.w)
	}
	v.mu.Unlock()
	v.cancel(nil)
	close(v.ended)
}

func (v *visit) overtaken() bool { return v.taken.Load() }

// end gives the service time to notice that the request's context has ended. A read of
// the body, or a write of the response, does not: the client may be the very holder that
// was stopped. So reads fail at once, and writes after half the time.
func (v *visit) end(patience time.Duration, logger *slog.Logger) {
	defer close(v.over)
	v.failReads()
	if v.endsWithin(patience / 2) {
		return
	}
	v.failAll()
	if !v.endsWithin(patience - patience/2) {
		logger.WarnContext(v.ctx, "httpfence: the request of an earlier holder goes on beside newer ones",
			"resource", v.Resource, "token", v.Value, "waited", patience)
	}
}

func (v *visit) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-v.ended:
		return true
	case <-timer.C:
		return false
	}
}

// failReads ends the reads that the service waits in. Those that it begins later fail by
// themselves: a deadline costs an HTTP/1 client its connection.
func (v *visit) failReads() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reading > 0 {
		v.setPast((*http.ResponseController).SetReadDeadline)
	}
}

// failAll ends writes too, and what net/http reads within them: all of the body comes
// before the response.
func (v *visit) failAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unread {
		v.setPast((*http.ResponseController).SetReadDeadline)
	}
	v.setPast((*http.ResponseController).SetWriteDeadline)
}

// setPast sets a deadline that has passed. A ResponseWriter that cannot do that, such as
// one of a middleware without Unwrap, fails, and then only body and time help. v.mu is held.
func (v *visit) setPast(set func(*http.ResponseController, time.Time) error) {
	if !v.left && set(http.NewResponseController(v.w), time.Unix(1, 0)) == nil {
		v.cut = true
	}
}

// closeAfterReply makes net/http close the connection of an HTTP/1 request. Otherwise all
// later requests on it could begin with a context that has ended: net/http ends that of the
// connection when a read fails, also the one by which it notices that the client is gone.
// To a body that is too large net/http responds as is needed here, whether or not it has
// written the header.
func closeAfterReply(w http.ResponseWriter) {
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = inner.Unwrap()
	}
	tooLarge := http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = tooLarge.Read(make([]byte, 1))
}
