package eslock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A refusal that has stored a place is not a grant. It has the stored holds.
func TestRefusalThatIsStored(t *testing.T) {
	q := request("r", "a")
	q.Place = driver.PlaceID{1}
	var refused *driver.HeldError
	_, err := New(always(200, refusedAt(1, held("b"), waiting("c"))), nil).Acquire(t.Context(), q)
	if !errors.As(err, &refused) || refused.Position != 1 || refused.Waiters != 7 || len(refused.Holders) != 1 || refused.Holders[0].LockID != "b" ||
		len(refused.Ahead) != 1 || refused.Ahead[0].LockID != "c" || refused.Ahead[0].Left != time.Hour || refused.RetryAfter != time.Hour {
		t.Errorf("refused with %+v, %v", refused, err)
	}
	for name, answer := range map[string]string{
		"granted as well":    strings.Replace(refusedAt(0, held("b"), ""), "[-1]", fmt.Sprintf("[%d]", nowMillis+1000), 1),
		"nothing in the way": refusedAt(0, "", ""),
		"its own hold":       refusedAt(0, held("a"), ""),
	} {
		if _, err := New(always(200, answer), nil).Acquire(t.Context(), q); err == nil || errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// An answer to another request, mixed up by a proxy or a client, does not make the holds
// in it lost or released.
func TestAnswersToOtherRequests(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing was stored":  reply(noop, held("a"), ""),
		"a place was stored":  refusedAt(0, held("a"), ""),
		"an end out of reach": bulk(fmt.Sprintf(`{"_index":"i","_id":"r","status":200,"result":"updated","get":{"_source":{"holdfast":{"answer":{"time":%d,"token":%d,"ends":[9223372036854775]}}}}}`, nowMillis, token)),
	} {
		s := New(always(200, answer), nil)
		renewed, err := s.Renew(t.Context(), renewals("a"))
		if err != nil || renewed[0].Err == nil || errors.Is(renewed[0].Err, driver.ErrLost) {
			t.Errorf("%s: renewed %+v, error %v", name, renewed, err)
		}
		released, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: renewals("a")[0].HoldRef}})
		if err != nil || released[0].Err == nil {
			t.Errorf("%s: released %+v, error %v", name, released, err)
		}
		if g, err := s.Acquire(t.Context(), request("r", "a")); err == nil || errors.Is(err, driver.ErrHeld) {
			t.Errorf("%s: granted %+v, error %v", name, g, err)
		}
	}
}
