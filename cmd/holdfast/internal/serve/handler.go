package serve

import (
	"net/http"
	"sync/atomic"
)

// underWay counts the requests that are being answered.
type underWay struct{ count atomic.Pointer[atomic.Int64] }

func newUnderWay() *underWay {
	u := new(underWay)
	u.before()
	return u
}

// before returns the number of requests under way, which goes down to 0. Later requests
// do not count.
func (u *underWay) before() *atomic.Int64 { return u.count.Swap(new(atomic.Int64)) }

// counts serves what next does.
func (u *underWay) counts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := u.count.Load()
		n.Add(1)
		defer n.Add(-1)
		next.ServeHTTP(w, r)
	})
}
