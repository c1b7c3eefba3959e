package httplock

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// HistoryQuery chooses the holds that History returns.
type HistoryQuery struct {
	Resource string
	// Since chooses holds that ended in the last period of this length, or have no end; 0
	// chooses all.
	Since time.Duration
	// Limit is the largest number of holds, at most wire.MaxList; 0 means
	// wire.DefaultList.
	Limit int
}

// History returns the known history of the holds of a resource, the newest holds first.
// The error wraps driver.ErrUnsupported if the server keeps no history.
func (s *Store) History(ctx context.Context, q HistoryQuery) (h wire.History, err error) {
	values := url.Values{"resource": {q.Resource}}
	for name, n := range map[string]int64{"sinceMs": int64(wire.MillisUp(q.Since)), "limit": int64(q.Limit)} {
		if n != 0 {
			values.Set(name, strconv.FormatInt(n, 10))
		}
	}
	err = s.call(ctx, s.calls, message{path: wire.HistoryPath, query: values}, nil, &h)
	return h, err
}
