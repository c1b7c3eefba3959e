package httpfence

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// errOvertaken ends the context of a request when a request with a newer token arrives.
var errOvertaken = fmt.Errorf("httpfence: %w: a request with a newer token has come", holdfast.ErrStale)

// gate has the requests that this process serves. The requests of earlier holders end
// before the first request of a later holder reaches the service.
//
// Each request enters before it compares its token with the newest one, and looks for
// older requests after its own token is the newest. So of two requests, either the newer
// one finds the older one here, or the older one finds the newer token and is refused.
type gate struct {
	patience time.Duration
	logger   *slog.Logger
	mu       sync.Mutex
	inside   map[string]map[*visit]struct{} // by resource; no entry without requests
}

// enter registers a request until leave is called.
func (g *gate) enter(ctx context.Context, w http.ResponseWriter, r *http.Request, t Token) *visit {
	v := newVisit(ctx, w, r, t)
	g.mu.Lock()
	defer g.mu.Unlock()
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
	v.leave()
}

// clear ends all requests with older tokens, and returns when they are over. It returns
// an error if the request itself ends first, which must then not be served.
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
			older.taken.Store(true) // its context may have ended for another reason
			older.cancel(errOvertaken)
			go older.end(g.patience, g.logger)
		}
	}
	return all
}
