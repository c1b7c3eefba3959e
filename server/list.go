package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
)

// holds serves GET /v1/holds.
func (s *Server) holds(x *exchange) {
	serveList(x, "list", "holds", s.store.List, &s.holdRows,
		func(h driver.Status) (resource, lockID string) { return h.Resource, h.LockID }, x.hold)
}

// waiters serves GET /v1/waiters.
func (s *Server) waiters(x *exchange) {
	all := func(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
		return driver.Waiters(ctx, s.store, f)
	}
	serveList(x, "waiters", "waiters", all, &s.waiterRows,
		func(p driver.Place) (resource, lockID string) { return p.Resource, p.LockID }, x.waiter)
}

const (
	// maxListBytes bounds an answer in plain JSON, whatever its entries are.
	maxListBytes = 16 << 20
	// listSilence is how long the store may take for the next entry, besides what the reader
	// takes for those before.
	listSilence = 20 * time.Second
)

var errSlowStore = fmt.Errorf("the store yielded nothing for too long: %w", context.DeadlineExceeded)

func serveList[T, W any](
	x *exchange, op, member string, all func(context.Context, driver.Filter) iter.Seq2[T, error], known *rowCount,
	names func(T) (resource, lockID string), shown func(T, string) W,
) {
	s := x.s
	q, err := x.parseQuery()
	if err != nil {
		x.refuse(wire.KindInvalid, detail(err))
		return
	}
	if r := q.filter.Resource; r != "" && !x.mayList(r) {
		x.denyLook(r)
		return
	}
	if !x.spendList(q, known) {
		return
	}
	end, ok := x.takeList()
	if !ok {
		return
	}
	defer end()

	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	// It ends a list whose store is silent. The reader's time is bounded by each write.
	silence := time.AfterFunc(listSilence, func() { cancel(errSlowStore) })
	defer silence.Stop()

	out := x.lister(q, member)
	began, rows := time.Now(), int64(0)
	// A filter makes the store yield less, and not do less: it counts as without one.
	if isWhole(q) && q.filter != (driver.Filter{}) {
		if known.old(began) {
			if n, failed := count(all(ctx, driver.Filter{})); failed == nil {
				known.note(n)
			}
		}
		rows = known.rows.Load()
	}
	var denied error // the right was taken away
entries:
	for _, f := range q.filters {
		for entry, failed := range all(ctx, f) {
			if failed != nil {
				err = failed
				break entries
			}
			silence.Reset(listSilence)
			rows++
			resource, lockID := names(entry)
			if resource == reserved || !x.mayShow(q, resource, lockID) {
				continue
			}
			if denied = out.revoked(); denied != nil || !out.add(shown(entry, q.named)) {
				break entries
			}
			out.last.Resource, out.last.LockID = resource, lockID
		}
	}
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	s.storeCall(x.r.Context(), op, began, err)
	err = cmp.Or(err, denied)
	x.work += float64(rows * rowOfWork)
	if q.filter == (driver.Filter{}) && err == nil {
		known.note(rows)
	}
	out.end(op, err, nil)
}

// isWhole reports whether the store walks through everything for the list.
func isWhole(q query) bool { return q.filter.Resource == "" }

// rowCount is how many entries a list without a filter had last.
type rowCount struct{ rows, at atomic.Int64 }

func (c *rowCount) note(rows int64) {
	c.rows.Store(rows)
	c.at.Store(time.Now().UnixNano())
}

// old reports whether the count is of long ago. One that looks for it says that it is not:
// others use the old one meanwhile.
func (c *rowCount) old(now time.Time) bool {
	at := c.at.Load()
	return now.UnixNano()-at > int64(countPause) && c.at.CompareAndSwap(at, now.UnixNano())
}

func count[T any](all iter.Seq2[T, error]) (n int64, err error) {
	for _, err = range all {
		n++
	}
	return n, err
}

// countPause is how often lists with filters count what there is without.
const countPause = time.Minute

// spendList charges a list for as many entries as the last one had. It has refused the
// request if the caller may not have so many now.
func (x *exchange) spendList(q query, known *rowCount) bool {
	work := float64(rowOfWork)
	if isWhole(q) {
		work *= float64(known.rows.Load())
	}
	if wait, ok := x.account.Spend(budget.Reads, work); !ok {
		x.refuseUntil(wire.KindBusy, "the caller has used up its share of lists and pages", wire.MillisUp(wait))
		return false
	}
	x.work -= work // it was charged
	return true
}

// mayList reports whether the caller may see anything of the resource.
func (x *exchange) mayList(resource string) bool {
	c := x.caller
	return c.May(access.Look, resource) || c.May(access.Lock, resource) || c.May(access.Force, resource)
}

// mayShow reports whether the list may tell the caller that there is such a hold or place.
func (x *exchange) mayShow(q query, resource, lockID string) bool {
	return x.mayLook(resource, lockID) || q.outlines && x.mayList(resource)
}

// mayLook reports whether the caller may see that there is such a hold or place.
func (x *exchange) mayLook(resource, lockID string) bool {
	c := x.caller
	return c.May(access.Look, resource) || c.May(access.Force, resource) || c.May(access.Lock, resource) && x.isOwn(lockID)
}

// lister writes the entries of a list.
type lister struct {
	x         *exchange
	q         query
	buf       []byte // what is not written yet: of plain JSON everything
	count     int
	truncated bool           // there are more
	broken    bool           // the reader is gone
	last      driver.HoldRef // that was added
}

// lister returns one for a list that has its entries in this member, unless it is a stream.
func (x *exchange) lister(q query, member string) *lister {
	l := &lister{x: x, q: q}
	if !q.stream {
		l.buf = append(l.buf, `{"`+member+`":[`...)
	}
	return l
}

// pieceBytes is how many bytes of a stream are written at a time.
const pieceBytes = 16 << 10

// add adds an entry. It reports whether there may be more.
func (l *lister) add(entry any) bool {
	text, err := json.Marshal(entry)
	if err != nil { // no entry does that
		l.x.logError("list", err)
		l.broken = true
		return false
	}
	if l.q.stream {
		l.count++
		l.buf = append(append(l.buf, text...), '\n')
		return len(l.buf) < pieceBytes || l.flush()
	}
	if l.truncated = l.count == l.q.limit || len(l.buf)+len(text) > maxListBytes; l.truncated {
		return false
	}
	if l.count++; l.count > 1 {
		l.buf = append(l.buf, ',')
	}
	l.buf = append(l.buf, text...)
	return true
}

// flush writes what is there of a stream. A reader that is slower than writePatience is cut
// off: the stream then has no last line.
func (l *lister) flush() bool {
	x := l.x
	if x.status == 0 {
		x.status = http.StatusOK
		x.w.Header().Set("Content-Type", wire.NDJSON)
		x.w.WriteHeader(x.status)
	}
	l.broken = l.broken || !x.write(l.buf)
	l.buf = l.buf[:0]
	return !l.broken
}

// revoked returns ErrDenied if the caller may no longer see what it was shown last: a list
// that goes on without it would look like a short one.
func (l *lister) revoked() error {
	select {
	case <-l.q.changed:
	default:
		return nil
	}
	if l.last.Resource != "" && !l.x.mayShow(l.q, l.last.Resource, l.last.LockID) {
		return fmt.Errorf("%w: the right to look was taken away", ErrDenied)
	}
	return nil
}

// write writes a part of an answer and sends it.
func (x *exchange) write(part []byte) bool {
	x.work += float64(len(part)) / bytesOfWork
	_ = x.control.SetWriteDeadline(time.Now().Add(writePatience))
	if _, err := x.w.Write(part); err != nil {
		return false
	}
	err := x.control.Flush()
	// It could pass before net/http writes the end of the answer.
	_ = x.control.SetWriteDeadline(time.Time{})
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// end ends the list. kept is that of a history.
func (l *lister) end(op string, err error, kept *wire.Kept) {
	x := l.x
	if l.broken {
		panic(http.ErrAbortHandler) // the end of the answer must not look like one
	}
	if err == nil {
		err = l.revoked()
	}
	if errors.Is(err, ErrDenied) {
		x.auditDenied("look", l.last.Resource, driver.HoldID{}, err)
	}
	switch {
	case err != nil && x.status == 0:
		x.refuseError(op, err)
	case !l.q.stream:
		rest, _ := json.Marshal(struct { // of numbers and text
			Truncated bool       `json:"truncated"`
			Kept      *wire.Kept `json:"kept,omitempty"`
		}{l.truncated, kept})
		x.send(http.StatusOK, wire.JSON, append(append(l.buf, "],"...), rest[1:]...))
	default:
		last := wire.End{End: &wire.Count{Count: l.count}}
		if err != nil {
			last = wire.End{Error: new(x.refusalOf(op, err))}
		}
		text, _ := json.Marshal(last) // of numbers and text
		l.buf = append(append(l.buf, text...), '\n')
		if !l.flush() {
			panic(http.ErrAbortHandler)
		}
	}
}

// denyLook refuses to show the resource.
func (x *exchange) denyLook(resource string) {
	x.deny("look", resource, driver.HoldID{}, fmt.Errorf("%w: no right to look at %q", ErrDenied, resource))
}

// takeList begins a list, which ends with end. It has refused the request if there are too
// many.
func (x *exchange) takeList() (end func(), ok bool) {
	claim, ok := x.account.Open(budget.Lists, 1)
	if !ok {
		x.busy("too many lists at once")
		return nil, false
	}
	x.s.opts.Observer.stream(ListStream, 1)
	return func() {
		x.s.opts.Observer.stream(ListStream, -1)
		claim.Close()
	}, true
}

func wantsStream(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			if media, _, _ := strings.Cut(part, ";"); strings.EqualFold(strings.TrimSpace(media), wire.NDJSON) {
				return true
			}
		}
	}
	return false
}
