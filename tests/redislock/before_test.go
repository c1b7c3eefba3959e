package redislock_test

import (
	_ "embed"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// The scripts of the version before holds kept their limits.
var (
	//go:embed testdata/before_limits_acquire.lua
	acquireBefore string
	//go:embed testdata/before_limits_renew.lua
	renewBefore string
	//go:embed testdata/before_limits_release.lua
	releaseBefore string
)

// before is a program of that version.
type before struct {
	t      *testing.T
	client redis.UniversalClient
	prefix string
}

func (b before) run(script, resource, terms, item string) any {
	b.t.Helper()
	reply, err := b.client.Eval(b.t.Context(), script, []string{b.prefix + resource}, terms, item).Result()
	if err != nil {
		b.t.Fatalf("the version before: %v", err)
	}
	if replies, several := reply.([]any); several && len(replies) == 1 {
		reply = replies[0]
	}
	if err, failed := reply.(error); failed {
		b.t.Fatalf("the version before: %v", err)
	}
	return reply
}

// acquire reports whether it was granted an hour.
func (b before) acquire(q driver.AcquireRequest) bool {
	b.t.Helper()
	const hour, day = 3_600_000_000, 24 * 3_600_000_000
	terms := fmt.Sprintf("%016d%016d%016d%016d", day, hour+day, (hour+2*day)/1000, q.Limit)
	item := fmt.Sprintf("%s%04d%s%d%016d%016d000000000000", q.HoldID, len(q.LockID), q.LockID, q.Mode, hour, 0)
	_, granted := b.run(acquireBefore, q.Resource, terms, item).(int64)
	return granted
}

func (b before) named(ref driver.HoldRef) string {
	return fmt.Sprintf("%016d%s%04d%s", ref.Token, ref.HoldID, len(ref.LockID), ref.LockID)
}

func (b before) renew(ref driver.HoldRef) bool {
	b.t.Helper()
	const hour, day = 3_600_000_000, 24 * 3_600_000_000
	return b.run(renewBefore, ref.Resource, fmt.Sprintf("%016d%016d0", day, 2*hour), b.named(ref)) != int64(0)
}

func (b before) release(ref driver.HoldRef) bool {
	b.t.Helper()
	const day = 24 * 3_600_000_000
	return b.run(releaseBefore, ref.Resource, fmt.Sprintf("%016d%016dPUBLISH", 0, day), b.named(ref)) == int64(1)
}

// Programs of the version before and of this one exclude one another, and what the others
// change keeps what they do not know.
func TestBesideTheVersionBefore(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	old := before{t, p.client, p.Prefix}

	// Exclusive, in both forms of a record.
	ours := ask.Granted(t, s, ask.Request("r", "a"))
	for range 2 {
		if old.acquire(ask.Request("r", "b")) {
			t.Error("the version before was granted what is held")
		}
		renewed(t, s, ours, 2*time.Hour)
	}
	if !old.renew(ours) || !old.release(ours) {
		t.Error("the version before did not find a hold of this one")
	}
	theirs := ask.Request("r", "b")
	if !old.acquire(theirs) {
		t.Error("the version before was not granted what is free")
	}
	_ = ask.Refused(t, s, ask.Request("r", "a"))
	ref := driver.HoldRef{Resource: "r", LockID: "b", HoldID: theirs.HoldID}
	renewed(t, s, ref, time.Hour)
	if !ask.Released(t, s, ref, 0) {
		t.Error("a hold of the version before was not found")
	}

	// Shared: theirs has a limit that is not known, whoever changes the record.
	of3 := func(lockID string) driver.AcquireRequest { return ask.Shared(ask.Request("shared", lockID), 3) }
	first := of3("theirs")
	if !old.acquire(first) {
		t.Error("the version before was not granted what is free")
	}
	mine := ask.Granted(t, s, of3("ours"))
	if !old.renew(driver.HoldRef{Resource: "shared", LockID: "theirs", HoldID: first.HoldID}) || !old.renew(mine) {
		t.Error("the version before did not find a shared hold")
	}
	if !old.acquire(of3("theirs, too")) || old.acquire(of3("a fourth")) || old.acquire(ask.Request("shared", "exclusive")) {
		t.Error("the version before counts other holds than there are")
	}
	limits := make(map[string]int)
	for st, err := range s.List(t.Context(), driver.Filter{Resource: "shared"}) {
		if err != nil {
			t.Fatal(err)
		}
		limits[st.LockID] = st.Limit
	}
	if limits["ours"] != 3 || limits["theirs"] != driver.LimitUnknown || limits["theirs, too"] != driver.LimitUnknown || len(limits) != 3 {
		t.Errorf("the limits are %v", limits)
	}
	if held := ask.Refused(t, s, ask.Shared(ask.Request("shared", "a fourth"), 4)); !held.LimitDiffers {
		t.Error("the limit that was kept is not compared")
	}

	// The version before reads a record with a queue, and forgets who waits. They come back.
	queue := func() (lockIDs []string) {
		for p, err := range s.Waiters(t.Context(), driver.Filter{Resource: "r"}) {
			if err != nil {
				t.Fatal(err)
			}
			lockIDs = append(lockIDs, p.LockID)
		}
		return lockIDs
	}
	ours = ask.Granted(t, s, ask.Request("r", "a"))
	waiter := waiting(ask.Request("r", "waiter"))
	_ = ask.Refused(t, s, waiter)
	if all := queue(); len(all) != 1 || old.acquire(ask.Request("r", "b")) || !old.renew(ours) {
		t.Errorf("%q wait, or the version before cannot read that", all)
	}
	if all := queue(); len(all) != 0 {
		t.Errorf("%q wait, though the version before has written the record", all)
	}
	_ = ask.Refused(t, s, waiter)
	if all := queue(); len(all) != 1 || !old.release(ours) {
		t.Errorf("%q wait again, or the version before cannot release", all)
	}
	ask.Granted(t, s, waiter)
}
