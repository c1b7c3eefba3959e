package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
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
	unread time.Duration // for how long net/http may read the body before it answers
	status int           // of the answer, 0: none yet
	kind   wire.Kind     // if it is a refusal
}

func (x *exchange) identified() bool {
	caller, err := x.s.opts.Identify(x.r)
	if err == nil {
		err = validCaller(caller)
	}
	switch {
	case errors.Is(err, access.ErrAnonymous):
		_ = x.audit(Event{Action: "login", Outcome: "denied", Reason: err.Error()})
		x.w.Header().Set("WWW-Authenticate", "Bearer")
		x.refuse(wire.KindAnonymous, err.Error())
		return false
	case err != nil:
		x.s.opts.Logger.Error("holdfast server: cannot find out who sent a request", "error", err)
		x.refuse(wire.KindUnknown, "the server cannot find out who sent the request")
		return false
	}
	x.caller = caller
	return true
}

// validCaller refuses a caller whose lock IDs could be those of another.
func validCaller(c access.Caller) error {
	if c == nil {
		return errors.New("Options.Identify returned no caller and no error")
	}
	if name := c.Name(); name != "" {
		return access.ValidName(name)
	}
	return nil
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

// read reads the body into v. It reads it to its end: only then does net/http notice that
// the caller hangs up. If the body is not as it should be, read refuses the request, and
// reports false. The caller that is gone before the body is complete has changed nothing.
func (x *exchange) read(v any) bool { return x.readUpTo(smallBody, v, nil) }

// readBatch is read for a renewal or a release of many holds, of which large has the large
// ones.
func (x *exchange) readBatch(v any, large *pool) bool { return x.readUpTo(wire.MaxBody, v, large) }

func (x *exchange) readUpTo(most int64, v any, large *pool) bool {
	body, leave, err := x.readAll(most, large)
	defer leave()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		x.refuse(wire.KindTooLarge, "the body has more than "+strconv.FormatInt(most, 10)+" bytes")
		return false
	case errors.Is(err, errTooManyLarge):
		x.busy(err.Error())
		return false
	case err != nil:
		x.w.Header().Set("Connection", "close")
		x.refuse(wire.KindInvalid, "the body did not arrive as a whole")
		return false
	}
	x.unread = 0
	if err := wire.Decode(body, v); err != nil {
		kind := wire.KindInvalid
		if errors.Is(err, wire.ErrTooMany) {
			kind = wire.KindTooLarge
		}
		x.refuse(kind, detail(err))
		return false
	}
	return true
}

// reserved is the resource in which the store's ID is kept. Requests cannot name it.
const reserved = "holdfast/server"

// validName checks a resource that a request names.
func validName(resource string) error {
	if resource == reserved {
		return errReserved
	}
	return driver.ValidResource(resource)
}

// Reserved reports whether the resource is the server's own. Lists leave it out, and no
// request may name it.
func Reserved(resource string) bool { return resource == reserved }
