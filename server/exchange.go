package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
	"github.com/holdfast-go/holdfast/server/internal/strictjson"
)

// exchange is a request and its answer.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	// received is when the handler began: before the body was read, which may take long.
	received time.Time
	// budget is when the caller no longer waits for the answer, zero if it did not say.
	budget time.Time
	caller access.Caller
	// account is what the caller is charged to, and work what the answer to a read took: see
	// budget.Reads. Spent: a renewal or release for which there is nothing left but holds that
	// the server remembers.
	account budget.Account
	work    float64
	spent   bool
	// denied and missed are items of a batch that the audit is told of together: without a
	// right, and releases of holds that are not there.
	denied, missed Event
	size           int           // of the body
	unread         time.Duration // for how long net/http may read the body before it answers
	status         int           // of the answer, 0: none yet
	kind           wire.Kind     // if it is a refusal
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, w: w, r: r, received: time.Now(), control: http.NewResponseController(w)}
	x.boundBody()
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if id := s.StoreID(); id != "" {
		h.Set(wire.StoreHeader, id)
	}
	at, known := s.routes[r.URL.Path]
	if r.URL.RawPath != "" { // %2F is not a slash
		known = false
	}
	name := "other"
	if known {
		name = r.URL.Path
	}
	defer func() {
		if x.reads() {
			x.account.Correct(budget.Reads, x.work)
		}
		s.opts.Observer.request(name, x.status, x.kind, time.Since(x.received))
	}()
	switch {
	case !known:
		x.refuse(wire.KindNotFound, "there is nothing at this path")
	case r.Method != at.method:
		h.Set("Allow", at.method)
		x.refuse(wire.KindMethod, "this path takes a "+at.method)
	case at.open:
		at.serve(x)
	case !x.identified() || !x.readBudget(): // refused
	case !at.query && r.URL.RawQuery != "":
		x.refuse(wire.KindInvalid, "this path takes no parameters")
	case !x.prepared(), at.same && !s.identity.same(r.Context()):
		x.refuse(wire.KindUnknown, s.notReady())
	default:
		at.serve(x)
	}
}

func (x *exchange) identified() bool {
	caller, err := x.s.opts.Identify(x.r)
	if err == nil && caller == nil {
		err = errors.New("Options.Identify returned no caller and no error")
	}
	if err == nil && caller.Name() != "" { // else its lock IDs could be those of another
		err = access.ValidName(caller.Name())
	}
	switch {
	case errors.Is(err, access.ErrAnonymous):
		x.account = front.Account(x.s.opts.Budget, nil, front.AddressOf(x.r), x.r)
		x.auditRefused(Event{Action: "login", Outcome: "denied", Reason: err.Error(), Count: 1})
		x.w.Header().Set("WWW-Authenticate", "Bearer")
		x.refuse(wire.KindAnonymous, err.Error())
		return false
	case err != nil:
		x.s.opts.Logger.Error("holdfast server: cannot find out who sent a request", "error", err)
		x.refuse(wire.KindUnknown, "the server cannot find out who sent the request")
		return false
	}
	x.caller = caller
	x.account = front.Account(x.s.opts.Budget, caller, front.AddressOf(x.r), x.r)
	return true
}

// readBudget reads wire.TimeoutHeader.
func (x *exchange) readBudget() bool {
	given := x.r.Header.Values(wire.TimeoutHeader)
	if len(given) == 0 {
		return true
	}
	ms, err := strconv.ParseUint(given[0], 10, 32)
	if err != nil || len(given) > 1 {
		x.refuse(wire.KindInvalid, wire.TimeoutHeader+" must be one whole number of milliseconds")
		return false
	}
	x.budget = x.received.Add(time.Duration(ms) * time.Millisecond)
	return true
}

// startPatience is how long a request waits for the store to be prepared: the first one of
// a server that was started for it would find that it is not.
const startPatience = 3 * time.Second

// prepared waits for a moment until the store is prepared, and reports whether it is.
func (x *exchange) prepared() bool {
	if x.s.StoreID() != "" {
		return true
	}
	ctx, cancel := context.WithDeadline(x.r.Context(), x.within(time.Now().Add(startPatience)))
	defer cancel()
	select {
	case <-x.s.identity.found:
		x.w.Header().Set(wire.StoreHeader, x.s.StoreID())
		return true
	case <-ctx.Done():
	case <-x.s.scope.Life.Done():
	case <-x.s.waits.Done():
	}
	return false
}

// The work of a read, in microseconds of a core.
const (
	rowOfWork   = 10 // an entry that the store yields, shown or not
	bytesOfWork = 25 // as many of an answer
)

// reads reports whether the answer is charged by what it shows.
func (x *exchange) reads() bool {
	switch x.r.URL.Path {
	case wire.HoldsPath, wire.WaitersPath, wire.HistoryPath:
		return x.caller != nil
	}
	return false
}

// deadline returns when a call of the store that begins now has to be over.
func (x *exchange) deadline() time.Time {
	return x.within(time.Now().Add(x.s.opts.StoreTimeout))
}

// within returns the time, or the end of the caller's budget if that is earlier.
func (x *exchange) within(by time.Time) time.Time {
	if x.budget.IsZero() {
		return by
	}
	return earliest(by, x.budget)
}

const (
	// smallBody is how many bytes a request about one hold has at most: five names of
	// driver.MaxName bytes, each of which may be escaped in six.
	smallBody = 64 << 10
	// readPatience is how long a body may take, also one that nobody wants: net/http reads
	// some of it before it answers. writePatience is how long a part of an answer may take.
	readPatience  = 30 * time.Second
	writePatience = 10 * time.Second
)

// boundBody bounds the time until the body is there.
func (x *exchange) boundBody() {
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return
	}
	// At the end of the body net/http takes it off: it then reads on to see a hang-up.
	_ = x.control.SetReadDeadline(x.received.Add(readPatience)) // not all writers have one
	x.unread = readPatience
}

// read decodes the body, which may have that many bytes at most, into v. It reads the body to
// its end: only then does net/http notice that the caller hangs up. If the body is not as it
// should be, read refuses the request, and reports false. A caller that is gone before the
// body is complete has changed nothing.
func (x *exchange) read(v any, most int64) bool {
	body, claim, err := x.readAll(most)
	defer claim.Close()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		x.tooLarge(most)
		return false
	case errors.Is(err, errTooMuch):
		claim.Close() // it pauses
		x.busy(err.Error())
		return false
	case err != nil:
		x.w.Header().Set("Connection", "close")
		x.refuse(wire.KindInvalid, "the body did not arrive as a whole")
		return false
	}
	x.unread, x.size = 0, len(body)
	if err := strictjson.Decode(body, v); err != nil {
		kind := wire.KindInvalid
		if errors.Is(err, strictjson.ErrTooMany) {
			kind = wire.KindTooLarge
		}
		x.refuse(kind, detail(err))
		return false
	}
	return true
}

func (x *exchange) tooLarge(most int64) {
	if x.spent {
		front.Pause(x.r)
		x.leaveUnread()
	}
	x.refuse(wire.KindTooLarge, "the body has more than "+strconv.FormatInt(most, 10)+" bytes, which is what the caller may send now")
}

// leaveUnread ends the connection with the answer, unless the body is read.
func (x *exchange) leaveUnread() {
	if x.unread > 0 {
		front.LeaveUnread(x.w, x.r)
	}
}

// freeBody is how many bytes of a body count for nobody: as many as net/http has for each
// connection. So whatever else a caller sends, it can renew some holds.
const freeBody = 4 << 10

var errTooMuch = errors.New("the caller sends too much at once")

// readAll reads the body to its end. The memory that it takes meanwhile is claimed as the bytes
// come: who sends slowly keeps nobody out.
func (x *exchange) readAll(most int64) (body []byte, claim budget.Claim, err error) {
	claim, _ = x.account.Open(budget.Bodies, 0)
	r := http.MaxBytesReader(x.w, x.r.Body, most)
	size := int64(512)
	if n := x.r.ContentLength; n >= 0 && n < freeBody {
		size = n + 1 // and its end
	}
	body = make([]byte, 0, size)
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, claim, nil
		case err != nil:
			return nil, claim, err
		case len(body) < cap(body):
			continue
		}
		size = min(2*int64(cap(body)), most+1)
		if size > freeBody && !claim.Grow(size-int64(cap(body))) {
			return nil, claim, errTooMuch
		}
		body = append(make([]byte, 0, size), body...)
	}
}

// answer writes v as the body of a success.
func (x *exchange) answer(v any) {
	body, err := json.Marshal(v)
	if err != nil { // no type of package wire does that
		x.s.opts.Logger.Error("holdfast server: cannot write an answer", "error", err)
		x.refuse(wire.KindUnknown, "the server cannot write the answer")
		return
	}
	x.send(http.StatusOK, wire.JSON, body)
}

func (x *exchange) refuse(kind wire.Kind, why string) { x.sendRefusal(wire.NewRefusal(kind, why)) }

// busy refuses what is beyond a limit.
func (x *exchange) busy(why string) { x.refuseUntil(wire.KindBusy, why, 1000) }

// draining refuses what another server is to do, at once.
func (x *exchange) draining(kind wire.Kind) { x.refuseUntil(kind, errDraining.Error(), 0) }

// refuseUntil refuses a request that may be repeated after that time.
func (x *exchange) refuseUntil(kind wire.Kind, why string, after wire.Millis) {
	if kind == wire.KindBusy {
		front.Pause(x.r)
		x.leaveUnread()
	}
	r := wire.NewRefusal(kind, why)
	r.RetryAfterMs = &after
	x.sendRefusal(r)
}

func (x *exchange) sendRefusal(r wire.Refusal) {
	x.kind = r.Kind()
	if ms := r.RetryAfterMs; ms != nil && *ms >= 0 && r.Status != http.StatusConflict {
		x.w.Header().Set("Retry-After", strconv.FormatInt(int64((*ms+999)/1000), 10))
	}
	body, err := json.Marshal(r)
	if err != nil {
		body = []byte(`{}`) // not of our schema, so unknown
	}
	x.send(r.Status, wire.ProblemJSON, body)
}

// send writes an answer. A reader that does not take it within writePatience is cut off. Who
// is refused before its body was read may send that first.
func (x *exchange) send(status int, mediaType string, body []byte) {
	x.status = status
	x.work += float64(len(body)) / bytesOfWork
	h := x.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_ = x.control.SetWriteDeadline(time.Now().Add(x.unread + writePatience))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // there is nobody to tell
}

// refuseError refuses because of an error of the store, of a Validate method, or ErrDenied.
func (x *exchange) refuseError(op string, err error) { x.sendRefusal(x.refusalOf(op, err)) }

func (x *exchange) refusalOf(op string, err error) wire.Refusal {
	kind := wire.KindOf(err)
	if kind == wire.KindHeld { // only an acquire is, and describes it
		kind = wire.KindUnknown
	}
	x.logError(op, err)
	return wire.NewRefusal(kind, x.why(err))
}

// why is what the caller is told of an error.
func (x *exchange) why(err error) string {
	switch {
	case errors.Is(err, ErrDenied):
		return x.whyDenied(err)
	case errors.Is(err, errNotReady):
		return x.s.notReady()
	case x.r.Method == http.MethodGet: // it changes nothing
		return strings.TrimSuffix(detail(err), mayApply)
	}
	return detail(err)
}

// logError logs what an operator has to know of an error of the store.
func (x *exchange) logError(op string, err error) {
	switch {
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnsupported), errors.Is(err, driver.ErrLost),
		errors.Is(err, ErrDenied), errors.Is(err, errNotReady):
		return
	case !definite(err) && op != "release" && x.r.Context().Err() != nil:
		return // the caller hung up, which ends all calls but releases
	}
	x.s.failures.note(op, err)
}

const mayApply = ": the request may be applied, now or later"

// detail is what a caller is told of an error. What a store says of others' records and of
// itself is for the log alone: it may name their lock IDs.
func detail(err error) string {
	switch {
	case errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrUnsupported):
		return strings.TrimPrefix(err.Error(), driver.ErrInvalid.Error()+": ")
	case errors.Is(err, driver.ErrLost):
		return "the hold has ended: it is past its end, released or not there"
	case errors.Is(err, driver.ErrDamaged):
		return "a record in the store cannot be understood: see the server's log"
	case errors.Is(err, driver.ErrUnusable):
		return "the store cannot be used until somebody fixes it: see the server's log"
	case errors.Is(err, errNotSent), errors.Is(err, errHungUp), errors.Is(err, errReplaced), errors.Is(err, errReleased), errors.Is(err, errSpent):
		return err.Error()
	case errors.As(err, new(historyError)):
		return "the history cannot be read: see the log of the server"
	}
	return "the store did not answer" + mayApply
}

// definite reports whether the error says that the request was not applied.
func definite(err error) bool {
	return errors.Is(err, errNotSent) || errors.Is(err, errNotReady) || driver.Definite(err)
}

// errNotSent: the caller's time was over, or it was gone.
var errNotSent = errors.New("the caller's time was over before the request could be sent to the store")
