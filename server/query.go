package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

// query is what a list is asked for.
type query struct {
	filter  driver.Filter
	filters []driver.Filter // for the store
	named   string          // the lock ID, in the store, that the request names
	// outlines: who may lock, but not look, is shown what there is of the resource as a
	// refusal shows it. A list without that would read as if it were free. Of the names of
	// resources, and of what a filter chooses by, a refusal tells nothing.
	outlines bool
	limit    int
	stream   bool
	changed  <-chan struct{} // closed when rights may have changed since
}

// parseQuery reads the query of a list as strictly as a body.
func (x *exchange) parseQuery() (query, error) {
	q := query{limit: wire.DefaultList, stream: wantsStream(x.r), changed: x.caller.Changed()}
	f := &q.filter
	err := parseParameters(x.r, map[string]func(string) error{
		"resource":      func(v string) error { f.Resource = v; return validName(v) },
		"lockId":        func(v string) error { f.LockID = v; return driver.ValidLockID(v) },
		"owner":         func(v string) error { f.Owner = v; return validOwner(v) },
		"createdBefore": func(v string) (err error) { f.CreatedBefore, err = moment(v); return err },
		"createdAfter":  func(v string) (err error) { f.CreatedAfter, err = moment(v); return err },
		"ttlAtLeastMs":  func(v string) (err error) { f.LeftAtLeast, err = millis(v); return err },
		"ttlBelowMs": func(v string) (err error) {
			f.LeftBelow, err = millis(v)
			if err == nil && f.LeftBelow == 0 { // to the store that would be no bound
				err = errors.New("want 1 at least: nothing has less than 0 left")
			}
			return err
		},
		"expired": func(v string) error {
			if f.Expired = v == "true"; !f.Expired && v != "false" {
				return errors.New("want true or false")
			}
			return nil
		},
		"limit": q.setLimit,
	})
	if err != nil {
		return q, err
	}
	q.outlines = q.filter == driver.Filter{Resource: f.Resource} && f.Resource != ""
	q.filters = []driver.Filter{q.filter}
	if f.LockID != "" {
		// The caller's own ones are in the store under his name. Who may force sees others'
		// as they are there, and names them so.
		q.named = x.ownID(f.LockID)
		q.filters[0].LockID = q.named
		if q.named != f.LockID && x.caller.MayAll(access.Force) {
			q.filters = append(q.filters, q.filter)
		}
	}
	return q, nil
}

// setLimit reads the limit of an answer in plain JSON.
func (q *query) setLimit(value string) (err error) {
	switch q.limit, err = strconv.Atoi(value); {
	case q.stream:
		return errors.New("a stream has no limit")
	case err == nil && (q.limit < 1 || q.limit > wire.MaxList):
		return fmt.Errorf("want 1 to %d", wire.MaxList)
	}
	return err
}

// moment reads a time. To the store the zero time would be no bound: the moment before
// chooses the same.
func moment(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err == nil && t.IsZero() {
		t = t.Add(-1)
	}
	return t, err
}

// validOwner checks the owner to look for. Without one the filter would choose all.
func validOwner(owner string) error {
	if owner == "" {
		return errors.New("want the name of an owner")
	}
	return driver.Details{Owner: owner}.Validate()
}

func millis(text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("want milliseconds")
	}
	return min(wire.Millis(n).Duration(), driver.MaxTTL), nil
}

// parseParameters reads the query, of which each parameter may come once.
func parseParameters(r *http.Request, parse map[string]func(value string) error) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: the query cannot be read: %v", driver.ErrInvalid, err)
	}
	for name, all := range values {
		switch {
		case parse[name] == nil:
			return fmt.Errorf("%w: there is no parameter %.100q", driver.ErrInvalid, name)
		case len(all) > 1:
			return fmt.Errorf("%w: the parameter %q comes twice", driver.ErrInvalid, name)
		}
		if err := parse[name](all[0]); err != nil {
			return fmt.Errorf("%w: parameter %q: %v", driver.ErrInvalid, name, err)
		}
	}
	return nil
}
