package dashboard

import (
	"maps"
	"math"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
)

const (
	// pageLife is for how long a page is given to others who ask for the same: it shows ages.
	pageLife = 500 * time.Millisecond
	// maxPages is how many pages are kept for that.
	maxPages = 64
	// bytesOfWork is how many bytes of a page are a unit of budget.Reads to make, and
	// bytesOfCopy how many are one to send again. A hold or waiter to walk through is one.
	bytesOfWork, bytesOfCopy = 25, 500
)

// pages are those that were made just now, and the turns to make more: half of the processors
// are left to locks. Operators have a turn of their own.
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

// view is what a page depends on, besides the time: what was asked for, and by whom with which
// rights. The rights of a caller are those until its channel of changes is another one.
type view struct {
	path, query  string
	part         bool
	name         string
	changed      <-chan struct{}
	looks, force bool // on everything
}

// made is a page, once it is done.
type made struct {
	done   chan struct{}
	at     time.Time
	look   uint64 // the number of the sight that it shows
	header http.Header
	code   int // 0: who made it is gone
	body   []byte
}

func newMade(header http.Header) *made {
	return &made{done: make(chan struct{}), header: header.Clone()}
}

// Header implements http.ResponseWriter.
func (m *made) Header() http.Header { return m.header }

// WriteHeader implements http.ResponseWriter.
func (m *made) WriteHeader(code int) { m.code = code }

// Write implements http.ResponseWriter.
func (m *made) Write(p []byte) (int, error) {
	m.body = append(m.body, p...)
	return len(p), nil
}

// page answers with the page that serve makes, or that it has made for the same caller just now.
func (d *Dashboard) page(v *visit, serve func(*visit)) {
	look := d.looker.Last().Number
	m, first := d.pages.find(v.view(), look, v.w.Header())
	if !first {
		select {
		case <-m.done:
		case <-v.r.Context().Done():
			return
		}
		if m.code == http.StatusOK && m.look >= look {
			v.account().Correct(budget.Reads, float64(len(m.body))/bytesOfCopy)
			v.send(m)
			return
		}
		m = newMade(v.w.Header()) // for this visit alone
	}
	w := v.w
	func() {
		v.w, v.number = m, math.MaxUint64
		defer func() {
			if v.leave != nil {
				v.leave()
			}
			d.pages.end(m, v.number)
		}()
		last := d.looker.Last()
		if wait, ok := v.account().Spend(budget.Reads, float64(len(last.Holds)+len(last.Waiters))); !ok {
			v.busy(wait, "You have loaded too many pages. Wait a moment.")
			return
		}
		serve(v)
		v.account().Correct(budget.Reads, float64(len(m.body))/bytesOfWork)
	}()
	v.w = w
	v.send(m)
}

func (v *visit) send(m *made) {
	maps.Copy(v.w.Header(), m.header)
	v.write(m.code, m.body)
}

// enter waits for a turn to make a page, until the visit ends.
func (v *visit) enter() {
	if _, makes := v.w.(*made); !makes || v.leave != nil {
		return
	}
	turns := v.d.pages.turns
	if v.caller.MayAll(access.Force) {
		turns = v.d.pages.operators
	}
	select {
	case turns <- struct{}{}:
		v.leave = func() { <-turns }
	case <-v.r.Context().Done():
		panic(http.ErrAbortHandler) // there is nobody to show it to
	}
}

func (v *visit) view() view {
	c := v.caller
	return view{
		path: v.r.URL.Path, query: v.r.URL.RawQuery, part: v.isPart(), name: c.Name(), changed: c.Changed(),
		looks: c.MayAll(access.Look), force: c.MayAll(access.Force),
	}
}

// find returns the page of the view, and whether it is to be made. That of one resource is soon
// made, and has what is newer than a look. Of callers without a name that see only a part
// nobody knows which one.
func (p *pages) find(k view, look uint64, header http.Header) (m *made, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m = p.made[k]; m != nil && (m.at.IsZero() || m.look >= look && time.Since(m.at) < pageLife) {
		return m, false
	}
	m = newMade(header)
	if len(p.made) >= maxPages {
		maps.DeleteFunc(p.made, func(_ view, m *made) bool { return !m.at.IsZero() })
	}
	ofAll := k.path != "/resource" && k.path != "/history"
	if len(p.made) < maxPages && ofAll && (k.name != "" || k.looks || k.force) {
		p.made[k] = m
	}
	return m, true
}

// end lets others have the page, unless it failed.
func (p *pages) end(m *made, look uint64) {
	p.mu.Lock()
	m.at, m.look = time.Now(), look
	if m.code != http.StatusOK {
		m.at = time.Time{}.Add(1) // long ago
	}
	p.mu.Unlock()
	close(m.done)
}
