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
	over   chan struct{} // closed when no newer request waits for it
	ending bool          // end was called; guarded by gate.mu
	taken  atomic.Bool   // a request with a newer token has come

	// mu keeps the request from leaving while its connection is used, which is allowed
	// only until its handler returns.
	mu      sync.Mutex
	left    bool
	w       http.ResponseWriter
	single  bool // one request at a time has the connection: HTTP/1
	unread  bool // the body may have more data
	reading int  // the number of calls that wait for it
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

// end gives the service time to notice that the request's context has ended. The end of
// the context does not end a read of the body or a write of the response, and the client
// may be the stopped holder. So reads fail at once, and writes after half the time.
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

// failReads ends the reads in which the service waits. Later reads fail without a
// deadline, because a deadline costs an HTTP/1 client its connection.
func (v *visit) failReads() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reading > 0 {
		v.setPast((*http.ResponseController).SetReadDeadline)
	}
}

// failAll also ends writes, and the reads of net/http inside them: it reads the whole
// body before it sends the response.
func (v *visit) failAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unread {
		v.setPast((*http.ResponseController).SetReadDeadline)
	}
	v.setPast((*http.ResponseController).SetWriteDeadline)
}

// setPast sets a deadline in the past. It fails if the ResponseWriter does not support
// that, as in a middleware without Unwrap. Then only the body and time help. v.mu is
// held.
func (v *visit) setPast(set func(*http.ResponseController, time.Time) error) {
	if !v.left && set(http.NewResponseController(v.w), time.Unix(1, 0)) == nil {
		v.cut = true
	}
}

// closeAfterReply makes net/http close the connection of an HTTP/1 request. Otherwise all
// later requests on it could begin with an ended context: net/http ends the context of
// the connection when a read fails, also the read by which it notices that the client is
// gone. net/http closes the connection after a body that is too large, even if it has
// written the header, so closeAfterReply simulates such a body.
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
