package eslock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A refusal that has stored a place is no grant. It has the holds that are stored.
func TestRefusalThatIsStored(t *testing.T) {
	q := request("r", "a")
	q.Place = driver.PlaceID{1}
	var refused *driver.HeldError
	_, err := New(always(200, refusedAt(1, held("b"), waiting("c"))), nil).Acquire(t.Context(), q)
	if !errors.As(err, &refused) || refused.Position != 1 || refused.Waiters != 7 || len(refused.Holders) != 1 || refused.Holders[0].LockID != "b" ||
		len(refused.Ahead) != 1 || refused.Ahead[0].LockID != "c" || refused.Ahead[0].Left != time.Hour || refused.RetryAfter != time.Hour {
		t.Errorf("refused with %+v, %v", refused, err)
	}
	granted := strings.Replace(refusedAt(0, held("b"), ""), "[-1]", fmt.Sprintf("[%d]", nowMillis+1000), 1)
	if _, err := New(always(200, granted), nil).Acquire(t.Context(), q); err == nil || errors.Is(err, driver.ErrHeld) {
		t.Errorf("granted as well: error %v", err)
	}
	rs, err := New(always(200, refusedAt(0, held("a"), "")), nil).Renew(t.Context(), renewals("a"))
	if err != nil || rs[0].Err == nil || errors.Is(rs[0].Err, driver.ErrLost) {
		t.Errorf("a renewal with that answer: %+v, %v", rs, err)
	}
}
