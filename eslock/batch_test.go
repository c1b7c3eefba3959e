package eslock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// answered is the reply to an update of document r that stored something.
func answered(answer string) string {
	return bulk(fmt.Sprintf(`{"_id":"r","status":200,"result":"updated","get":{"_source":{"holdfast":{"answer":{"time":%d,%s}}}}}`, nowMillis, answer))
}

func renewals(lockIDs ...string) (qs []driver.RenewRequest) {
	for _, lockID := range lockIDs {
		qs = append(qs, driver.RenewRequest{HoldRef: ref("r", lockID), TTL: time.Hour})
	}
	return qs
}

// An end may be later than a duration can express: other programs may write any date.
func TestFarEnd(t *testing.T) {
	s := New(always(200, answered(`"ends":[100000000000000]`)), nil)
	rs, err := s.Renew(t.Context(), renewals("a"))
	if err != nil || len(rs) != 1 || rs[0] != (driver.RenewResult{Left: driver.Forever}) {
		t.Errorf("renewed %+v, %v", rs, err)
	}
}

// If the answer lacks the outcome of one hold, the outcomes of all are unknown.
func TestAnswersMissing(t *testing.T) {
	for _, answer := range []string{
		`"ends":[1800000001000]`, `"ends":[1800000001000,-1,-1]`, `"ends":[1800000001000,null]`, `"ends":[1800000001000,0]`, `"ends":null`,
		`"ends":[1800000001000,1800000000000]`, `"ends":[-1,-3]`, `"ends":true`, `"token":5`, `"swept":2`, `"ends":[],"swept":2`,
	} {
		s := New(always(200, answered(answer)), nil)
		renewed, err := s.Renew(t.Context(), renewals("a", "b"))
		if err != nil || len(renewed) != 2 {
			t.Fatal(renewed, err)
		}
		released, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref("r", "a")}, {HoldRef: ref("r", "b")}})
		if err != nil || len(released) != 2 {
			t.Fatal(released, err)
		}
		for i := range 2 {
			if err := renewed[i].Err; err == nil || errors.Is(err, driver.ErrLost) {
				t.Errorf("%s: renewal %d: %+v", answer, i, renewed[i])
			}
			if released[i].Err == nil {
				t.Errorf("%s: release %d: %+v", answer, i, released[i])
			}
		}
	}
}

// Renewals and releases are retried as long as the caller waits, however often other
// updates interfere.
func TestConflictsOfHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := bulk(failed("r", 409, rest.Conflict, "current version differs"))
		f := &fake{answer: func(n int, _ sent) (int, string) {
			if n <= 3*maxTries {
				return 200, refused
			}
			return 200, reply(updated, "", "")
		}}
		if rs, err := New(f, nil).Renew(t.Context(), renewals("a")); err != nil || rs[0] != (driver.RenewResult{Left: time.Hour}) {
			t.Errorf("renewed %+v, %v", rs, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		rs, err := New(always(200, refused), nil).Release(ctx, []driver.ReleaseRequest{{HoldRef: ref("r", "a")}})
		if err != nil || !rest.IsConflict(rs[0].Err) || !strings.Contains(rs[0].Err.Error(), "differs") || time.Since(began) != time.Minute {
			t.Errorf("after %v: released %+v, %v", time.Since(began), rs, err)
		}
	})
}
