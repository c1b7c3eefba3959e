package eslock

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// sent is a request that has arrived.
type sent struct {
	Method, Path, Query, Type, Body string
}

// fake answers requests as a test requires, and records them.
type fake struct {
	answer func(n int, r sent) (status int, body string)

	mu   sync.Mutex
	sent []sent
}

// always gives the same answer to all requests.
func always(status int, body string) *fake {
	return &fake{answer: func(int, sent) (int, string) { return status, body }}
}

// Perform implements Performer.
func (f *fake) Perform(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	r := sent{Method: req.Method, Path: req.URL.EscapedPath(), Query: req.URL.RawQuery, Type: req.Header.Get("Content-Type")}
	if req.Body != nil {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		r.Body = string(text)
	}
	f.mu.Lock()
	f.sent = append(f.sent, r)
	n := len(f.sent)
	f.mu.Unlock()
	status, body := f.answer(n, r)
	if status == 0 {
		return nil, errors.New(body)
	}
	res := &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(body)),
	}
	if strings.HasPrefix(body, "<") {
		res.Header.Set("Content-Type", "text/html; charset=utf-8")
	}
	return res, nil
}

func (f *fake) requests() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sent(nil), f.sent...)
}

const (
	nowMillis = 1_800_000_000_000
	token     = nowMillis * 1000
)

var holdID = driver.HoldID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}

// The results of updates.
const (
	created = rest.Created
	updated = rest.Updated
	noop    = rest.Noop
)

// bulk returns the answer to a bulk of updates.
func bulk(items ...string) string {
	for i, item := range items {
		items[i] = `{"update":` + item + `}`
	}
	return `{"items":[` + strings.Join(items, ",") + `]}`
}

// each answers each update of a bulk according to its document.
func each(r sent, answer func(id string) string) string {
	var items []string
	for line := range strings.Lines(r.Body) {
		if _, after, ok := strings.Cut(line, `{"update":{"_id":"`); ok {
			id, _, _ := strings.Cut(after, `"`)
			items = append(items, answer(id))
		}
	}
	return bulk(items...)
}

// reply returns the answer to a bulk with one update, of document r: with its holds if
// nothing was stored, and otherwise with an hour left.
func reply(result, holds, more string) string { return bulk(itemOf(result, holds, more)) }

// failed returns the answer to a refused update.
func failed(id string, status int, kind, reason string) string {
	return fmt.Sprintf(`{"_index":"i","_id":%q,"status":%d,"error":{"type":%q,"reason":%q}}`, id, status, kind, reason)
}

func itemOf(result, holds, more string) string {
	answer := fmt.Sprintf(`"time":%d,"token":%d`, nowMillis, token)
	if result == noop {
		answer += `,"unstored":true,"holds":[` + holds + `]`
	} else {
		answer += fmt.Sprintf(`,"ends":[%d]`, nowMillis+3_600_000)
	}
	return fmt.Sprintf(`{"_index":"i","_id":"r","status":200,"result":%q,"get":{"_source":{"holdfast":{"answer":{%s%s}}}}}`, result, answer, more)
}

// held returns a hold of a lock ID, with an hour left.
func held(lockID string) string {
	return fmt.Sprintf(`{"lockId":%q,"holdId":%q,"mode":"exclusive","token":%d,"created":%d,"end":%d,"delay":0}`,
		lockID, holdID, token, nowMillis, nowMillis+3_600_000)
}

// waiting returns a place of a lock ID, with an hour left.
func waiting(lockID string) string {
	return fmt.Sprintf(`{"placeId":%q,"lockId":%q,"mode":"exclusive","fair":true,"since":%d,"asked":%d,"until":%d}`,
		holdID, lockID, nowMillis, nowMillis, nowMillis+3_600_000)
}

// refusedAt returns the answer to an acquire that was refused and stored a place.
func refusedAt(position int, holds, ahead string) string {
	return bulk(fmt.Sprintf(`{"_id":"r","status":200,"result":"updated","get":{"_source":{"holdfast":{"holds":[%s],"answer":{"time":%d,"token":%d,"ends":[-1],"placed":true,"position":%d,"waiters":7,"ahead":[%s]}}}}}`,
		holds, nowMillis, token, position, ahead))
}

func request(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: holdID, TTL: time.Hour}
}

func ref(resource, lockID string) driver.HoldRef {
	return driver.HoldRef{Resource: resource, LockID: lockID, HoldID: holdID, Token: token}
}

// everything calls all operations that send a request, and returns their outcomes.
func everything(t *testing.T, s *Store) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	_, errs["acquire"] = s.Acquire(t.Context(), request("r", "a"))
	renewed, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref("r", "a"), TTL: time.Hour}})
	if err == nil {
		err = renewed[0].Err
	}
	errs["renew"] = err
	released, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref("r", "a")}})
	if err == nil {
		err = released[0].Err
	}
	errs["release"] = err
	both, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref("r", "a"), TTL: time.Hour}, {HoldRef: ref("q", "a"), TTL: time.Hour}})
	if err == nil {
		err = errors.Join(both[0].Err, both[1].Err)
	}
	errs["renew two"] = err
	for _, err := range s.List(t.Context(), driver.Filter{Resource: "r"}) {
		errs["list one"] = err
	}
	for _, err := range s.List(t.Context(), driver.Filter{}) {
		errs["list"] = err
	}
	_, errs["sweep"] = s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour})
	errs["init"] = s.Init(t.Context())
	return errs
}
