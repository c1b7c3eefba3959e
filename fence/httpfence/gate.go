package httpfence

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// errOvertaken ends the context of a request when one with a newer token came.
var errOvertaken = fmt.Errorf("httpfence: %w: a request with a newer token has come", holdfast.ErrStale)

// gate has the requests that this process serves, so that those of an earlier holder
// have ended before the first one of a later holder gets to the service.
//
// Each request enters before it compares its token with the newest, and looks for older
// ones after its own token is the newest. So of two requests, either the newer one finds
// the older one here, or the older one finds the newer token and is refused.
type gate struct {
	patience time.Duration
	logger   *slog.Logger
	mu       sync.Mutex
	inside   map[string]map[*visit]struct{} // by resource; no entry without a request
}

// visit is a request in the gate.
type visit struct {
	Token
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when it leaves
	over   chan struct{} // closed when no newer request waits for it any longer
	ending bool          // end was called; guarded by gate.mu

	// mu keeps the request from leaving while its connection is used: that may be
	// done only until its handler returns.
	mu   sync.Mutex
	left bool
	conn *http.ResponseController
}

// enter registers a request, until leave.
func (g *gate) enter(ctx context.Context, w http.ResponseWriter, t Token) *visit {
	v := &visit{Token: t, ended: make(chan struct{}), over: make(chan struct{}), conn: http.NewResponseController(w)}
	v.ctx, v.cancel = context.WithCancelCause(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside == nil {
		g.inside = make(map[string]map[*visit]struct{})
	}
	if g.inside[t.Resource] == nil {
		g.inside[t.Resource] = make(map[*visit]struct{})
	}
	g.inside[t.Resource][v] = struct{}{}
	return v
}

func (g *gate) leave(v *visit) {
	g.mu.Lock()
	delete(g.inside[v.Resource], v)
	if len(g.inside[v.Resource]) == 0 {
		delete(g.inside, v.Resource)
	}
	g.mu.Unlock()
	v.mu.Lock()
	v.left = true
	v.mu.Unlock()
	v.cancel(nil)
	close(v.ended)
}

// clear ends all requests with older tokens, and returns when they are over. It fails if
// the request itself ends before, and is then not to be served.
func (g *gate) clear(v *visit) error {
	for _, older := range g.endOlder(v) {
		select {
		case <-older.over:
		case <-v.ctx.Done():
		}
	}
	return context.Cause(v.ctx)
}

func (g *gate) endOlder(v *visit) (all []*visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for older := range g.inside[v.Resource] {
		if older.Value >= v.Value {
			continue
		}
		all = append(all, older)
		if !older.ending {
			older.ending = true
			older.cancel(errOvertaken)
			go older.end(g.patience, g.logger)
		}
	}
	return all
}

// end gives the service time to notice that the request's context has ended. A read of
// the body, or a write of the response, does not: the client may be the very holder that
// was stopped. So reads fail at once, and writes after half the time.
func (v *visit) end(patience time.Duration, logger *slog.Logger) {
	defer close(v.over)
	v.unblock((*http.ResponseController).SetReadDeadline)
	if v.endsWithin(patience / 2) {
		return
	}
	v.unblock((*http.ResponseController).SetWriteDeadline)
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

// unblock sets a deadline that has passed. A ResponseWriter that cannot do that, such as
// one of a middleware without Unwrap, fails, and then only body and time help.
func (v *visit) unblock(set func(*http.ResponseController, time.Time) error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.left {
		_ = set(v.conn, time.Unix(1, 0))
	}
}

// body is that of a request, and fails as soon as the request is overtaken: what comes
// later is not for the service.
type body struct {
	io.ReadCloser
	ctx context.Context
}

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if cause := context.Cause(b.ctx); cause == errOvertaken { //nolint:errorlint // this very error
		return 0, cause
	}
	return n, err
}
