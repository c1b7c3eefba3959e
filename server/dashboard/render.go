package dashboard

import (
	"context"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/sight"
)

const (
	// lookPatience is how long a page waits for a look at the store before it shows what was
	// seen before.
	lookPatience = 3 * time.Second
	// pageLife is for how long the first page is given to others who ask for the same: it shows
	// ages.
	pageLife = 500 * time.Millisecond
	// maxPages is how many first pages are kept for that.
	maxPages = 64
	// bytesOfWork is how many bytes of a page are a unit of budget.Reads to make, and
	// bytesOfCopy how many are one to send again. A hold or waiter to walk through is one.
	bytesOfWork, bytesOfCopy = 25, 500
)

// pages are the first pages that were made just now, and the turns to make any page: half of
// the processors are left to locks. Operators have a turn of their own.
type pages struct {
	turns, operators chan struct{}

	mu   sync.Mutex
	made map[view]*made
}

func newPages() pages {
	return pages{
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), operators: make(chan struct{}, 1), made: map[view]*made{},
	}
}

// view is what the first page depends on, besides the time: what was asked for, by whom with
// which rights, and what was seen of the store. The rights of a caller are those until its
// channel of changes is another one.
type view struct {
	query        string
	part         bool
	name         string
	changed      <-chan struct{}
	looks, force bool   // on everything
	look, reads  uint64 // the number of the look, and that of reads of single resources
}

// made is a page. It is the http.ResponseWriter of who makes it.
type made struct {
	once   sync.Once
	began  time.Time
	header http.Header
	code   int // 0: who made it is gone
	body   []byte
}

func (m *made) Header() http.Header  { return m.header }
func (m *made) WriteHeader(code int) { m.code = code }
func (m *made) Write(p []byte) (int, error) {
	m.body = append(m.body, p...)
	return len(p), nil
}

// page answers with the page that serve makes, or that it has made for the same caller just now.
func (d *Dashboard) page(v *visit, serve func(*visit)) {
	ctx, cancel := context.WithTimeout(v.r.Context(), lookPatience)
	defer cancel()
	s, err := d.looker.Now(ctx)
	switch {
	case v.r.Context().Err() != nil:
		return
	case err != nil:
		s = d.looker.Last()
	}
	m, first := d.pages.find(v, s), false
	m.once.Do(func() {
		first = true
		d.make(v, m, s, serve)
	})
	if m.code != http.StatusOK && !first { // that who made it is gone, or may not, is not so of this visit
		m = &made{header: http.Header{}} // for this visit alone
		d.make(v, m, s, serve)
	} else if !first {
		v.account().Correct(budget.Reads, float64(len(m.body))/bytesOfCopy)
	}
	if m.code > 0 {
		maps.Copy(v.w.Header(), m.header)
		v.write(m.code, m.body)
	}
}

// make makes a page, unless there is nobody to show it to.
func (d *Dashboard) make(v *visit, m *made, s *sight.Sight, serve func(*visit)) {
	w := v.w
	v.w = m
	defer func() { v.w = w }()
	account, turns := v.account(), d.pages.turns
	if wait, ok := account.Spend(budget.Reads, float64(len(s.Holds)+len(s.Waiters))); !ok {
		v.busy(wait, "You have loaded too many pages. Wait a moment.")
		return
	}
	if v.caller.MayAll(access.Force) {
		turns = d.pages.operators
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-v.r.Context().Done():
		return
	}
	v.see(s)
	serve(v)
	account.Correct(budget.Reads, float64(len(m.body))/bytesOfWork)
}

// find returns the page that is asked for. Each page but the first one is made anew, for it is
// soon made, and has what is newer than a look. Of callers without a name that see only a part
// nobody knows which one.
func (p *pages) find(v *visit, s *sight.Sight) *made {
	c := v.caller
	k := view{
		query: v.r.URL.RawQuery, part: v.isPart(), name: c.Name(), changed: c.Changed(),
		looks: c.MayAll(access.Look), force: c.MayAll(access.Force), look: s.Number, reads: v.d.reads(),
	}
	m := &made{began: time.Now(), header: http.Header{}}
	if v.r.URL.Path != "/" || k.name == "" && !k.looks && !k.force {
		return m
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.made, func(_ view, m *made) bool { return time.Since(m.began) >= pageLife })
	if kept := p.made[k]; kept != nil {
		return kept
	}
	if len(p.made) < maxPages {
		p.made[k] = m
	}
	return m
}
