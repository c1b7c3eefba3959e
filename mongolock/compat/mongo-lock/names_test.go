package lock

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
)

// Everything that programs with mongo-lock call exists, with the same types.
var (
	_ interface {
		CreateIndexes(context.Context) error
		XLock(ctx context.Context, resource, lockId string, ld LockDetails) error
		SLock(ctx context.Context, resource, lockId string, ld LockDetails, maxConcurrent int) error
		Unlock(ctx context.Context, lockId string) ([]LockStatus, error)
		Renew(ctx context.Context, lockId string, ttl uint) ([]LockStatus, error)
		Status(context.Context, Filter) ([]LockStatus, error)
	} = (*Client)(nil)
	_ func(*mongo.Collection) *Client = NewClient
	_ func(*Client) Purger            = NewPurger
	_ interface {
		Purge(context.Context) ([]LockStatus, error)
	} = Purger(nil)
	_ sort.Interface          = LockStatusesByCreatedAtDesc{}
	_ *bool                   = &UPSERT
	_ *options.ReturnDocument = &ReturnDoc

	_ = LockDetails{Owner: "", Host: "", Comment: "", TTL: uint(0)}
	_ = Filter{
		CreatedBefore: time.Time{}, CreatedAfter: time.Time{}, TTLlt: uint(0), TTLgte: uint(0),
		Resource: "", LockId: "", Owner: "",
	}
	_ = LockStatus{
		Resource: "", LockId: "", Type: "", Owner: "", Host: "", Comment: "",
		CreatedAt: time.Time{}, RenewedAt: (*time.Time)(nil), TTL: int64(0),
	}
)

func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		ErrAlreadyLocked.Error(): "unable to acquire lock (resource is already locked)",
		ErrLockNotFound.Error():  "unable to find lock",
		LOCK_TYPE_EXCLUSIVE:      "exclusive",
		LOCK_TYPE_SHARED:         "shared",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTTLShown(t *testing.T) {
	for left, want := range map[time.Duration]int64{
		0: 0, 1: 0, time.Second - 1: 0, time.Second: 1, 90*time.Second - 1: 89,
		driver.MaxTTL: 100 * 365 * 86400, driver.Forever: -1,
	} {
		if got := statusOf(driver.Status{Left: left}).TTL; got != want {
			t.Errorf("%v left is shown as %d, want %d", left, got, want)
		}
	}
}

func TestFilterOfTTLs(t *testing.T) {
	const most = math.MaxUint
	for _, c := range []struct {
		f    Filter
		ttl  int64
		want bool
	}{
		{Filter{}, -1, true}, {Filter{}, 0, true},
		{Filter{TTLlt: 10}, 9, true}, {Filter{TTLlt: 10}, 10, false}, {Filter{TTLlt: 1}, 0, true},
		{Filter{TTLlt: most}, -1, false}, {Filter{TTLlt: most}, math.MaxInt64, true},
		{Filter{TTLgte: 10}, 9, false}, {Filter{TTLgte: 10}, 10, true}, {Filter{TTLgte: most}, math.MaxInt64, false},
		{Filter{TTLgte: 1}, -1, false},
		{Filter{TTLlt: 10, TTLgte: 5}, 4, false}, {Filter{TTLlt: 10, TTLgte: 5}, 5, true}, {Filter{TTLlt: 10, TTLgte: 5}, 10, false},
	} {
		if got := c.f.matchTTL(c.ttl); got != c.want {
			t.Errorf("TTLlt %d, TTLgte %d chooses a TTL of %d: %v", c.f.TTLlt, c.f.TTLgte, c.ttl, got)
		}
	}
}

func TestNewestFirst(t *testing.T) {
	now := time.Now()
	var ls LockStatusesByCreatedAtDesc
	for i := range 300 { // in the same millisecond, the resolution of the server's clock
		at := now
		if i >= 200 {
			at = now.Add(time.Millisecond)
		}
		ls = append(ls, LockStatus{CreatedAt: at, TTL: int64(i), holdID: newHoldID()})
	}
	sort.Sort(ls)
	for i, l := range ls {
		if want := int64(299 - i); l.TTL != want {
			t.Fatalf("lock %d in this order was made as number %d, want %d", i, l.TTL, want)
		}
	}
}

func TestStatusPrinted(t *testing.T) {
	s := LockStatus{Resource: "r", holdID: newHoldID()}
	for _, form := range []string{"%v", "%+v", "%#v"} {
		none := s
		none.holdID = driver.HoldID{}
		if got, want := fmt.Sprintf(form, []LockStatus{s}), fmt.Sprintf(form, []LockStatus{none}); got != want || !strings.Contains(got, "r") {
			t.Errorf("a lock is printed as %s, without a hold ID it is %s", got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	const most = 100 * 365 * 86400
	if d, err := seconds(most); err != nil || d != driver.MaxTTL {
		t.Errorf("%v, error %v", d, err)
	}
	for _, n := range []uint{most + 1, math.MaxUint} {
		if d, err := seconds(n); err == nil {
			t.Errorf("%d s are taken for %v", n, d)
		}
	}
}
