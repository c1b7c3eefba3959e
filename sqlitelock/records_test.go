package sqlitelock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// selected returns the value of a query without the store.
func selected[T any](t *testing.T, path, query string) (value T) {
	t.Helper()
	db := raw(t, path)
	defer db.Close()
	check(t, db.QueryRowContext(t.Context(), query).Scan(&value))
	return value
}

// Listing holds reads no rows that a sweep has unlisted, and the next sweep finds them by
// their age. A record with holds is always listed, whatever happens between a sweep and an
// acquire.
func TestListed(t *testing.T) {
	path := newFile(t)
	m := newMachine("one", today, time.Hour)
	b := openBackend(t, path, m.Machine())
	s := base.New(b)
	t.Cleanup(func() { check(t, s.Close()) })
	due := func(idle time.Duration, want int) {
		t.Helper()
		n := 0
		for _, err := range b.Due(t.Context(), idle) {
			check(t, err)
			n++
		}
		if n != want {
			t.Errorf("%d are due after %v, want %d", n, idle, want)
		}
	}
	listed := func(want int) {
		t.Helper()
		if n := selected[int](t, path, "SELECT count(*) FROM resources WHERE listed IS NOT NULL"); n != want {
			t.Errorf("%d are listed, want %d", n, want)
		}
	}
	const idle = 2*sqlitelock.PageSize + 10
	for i := range idle {
		mustRelease(t, s, mustAcquire(t, s, fmt.Sprintf("idle %04d", i), "a", time.Hour))
	}
	mustAcquire(t, s, "held", "a", time.Hour)
	due(time.Minute, 0)
	listed(idle + 1) // just after use
	m.pass(2 * time.Minute)
	due(time.Hour, 0)
	listed(1)
	due(time.Minute, idle)
	due(time.Minute, idle)
	listed(1)
	mustAcquire(t, s, "idle 0007", "a", time.Hour)
	var held []string
	for st, err := range s.List(t.Context(), driver.Filter{}) {
		check(t, err)
		held = append(held, st.Resource)
	}
	if !slices.Equal(held, []string{"held", "idle 0007"}) {
		t.Errorf("held are %q", held)
	}
	due(time.Minute, idle-1)
}

// A sweep finds due records by the index. It does not read others.
func TestDueByIndex(t *testing.T) {
	path := newFile(t)
	open(t, path)
	var id, parent, unused int
	var plan string
	check(t, raw(t, path).QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN "+sqlitelock.IdleSQL, 1, -1, "", 1).
		Scan(&id, &parent, &unused, &plan))
	if !strings.Contains(plan, "SEARCH resources USING") || !strings.Contains(plan, "INDEX idle") {
		t.Errorf("SQLite would %q", plan)
	}
}

// A damaged row does not affect other resources, is reported, and stays as it is.
func TestDamaged(t *testing.T) {
	for damage, change := range map[string]string{
		"no JSON":         `holds = '[{'`,
		"no hold":         `holds = '[{}]'`,
		"no places":       `places = '[{}]'`,
		"no array":        `holds = '7'`,
		"token too large": `token = 1 << 60`,
		"no token":        `token = 0`,
		"version":         `touched = -5`,
	} {
		t.Run(damage, func(t *testing.T) {
			path := newFile(t)
			m := newMachine("one", today, time.Hour)
			s := openOn(t, path, nil, m.Machine())
			refs := make(map[string]driver.HoldRef)
			for _, r := range []string{"a", "bad", "z"} {
				refs[r] = mustAcquire(t, s, r, "a", time.Minute)
			}
			mustAcquire(t, s, "expired", "a", time.Millisecond)
			rawExec(t, raw(t, path), "UPDATE resources SET "+change+" WHERE resource = 'bad'")
			const row = "SELECT concat_ws(' ', touched, token, freed, listed, holds, places) FROM resources WHERE resource = 'bad'"
			before := selected[string](t, path, row)
			isDamaged := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), `"bad"`) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err := acquire(t.Context(), s, request("bad", "a", time.Minute))
			isDamaged("acquire", err)
			var qs []driver.RenewRequest
			for _, r := range []string{"a", "bad", "z"} {
				qs = append(qs, driver.RenewRequest{HoldRef: refs[r], TTL: time.Hour})
			}
			rs, err := s.Renew(t.Context(), qs)
			if err != nil || rs[0].Err != nil || rs[2].Err != nil {
				t.Fatalf("renewals beside a damaged record: %v, error %v", rs, err)
			}
			isDamaged("renewal", rs[1].Err)
			var seen []string
			var last error
			for st, err := range s.List(t.Context(), driver.Filter{Expired: true}) {
				if last = err; err == nil {
					seen = append(seen, st.Resource)
				}
			}
			isDamaged("list", last)
			if fmt.Sprint(seen) != "[a expired z]" {
				t.Errorf("a list shows %v", seen)
			}
			m.pass(time.Second)
			swept, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour})
			isDamaged("sweep", err)
			if swept.Holds != 1 {
				t.Errorf("swept %+v, want the expired hold", swept)
			}
			if after := selected[string](t, path, row); after != before {
				t.Errorf("the row was %s and is %s", before, after)
			}
		})
	}
}

// A full disk is reported, undoes nothing, and does no lasting harm.
func TestFull(t *testing.T) {
	path := newFile(t)
	b := openBackend(t, path, sqlitelock.Machine{})
	s := base.New(b)
	t.Cleanup(func() { check(t, s.Close()) })
	held := mustAcquire(t, s, "held", "a", time.Hour)
	check(t, b.Exec(t.Context(), "PRAGMA max_page_count = 12")) // of the connection; it has the effect of a full disk
	var full error
	var last string
	for i := 0; full == nil && i < 1000; i++ {
		last = fmt.Sprint("r", i)
		_, full = acquire(t.Context(), s, request(last, "a", time.Hour))
	}
	noRoom(t, full, path)
	if _, there := holder(t, s, last); there {
		t.Error("a failed change was made")
	}
	mustRelease(t, s, held)
	check(t, b.Exec(t.Context(), "PRAGMA max_page_count = 1000000"))
	mustAcquire(t, s, last, "a", time.Hour)
}

// noRoom checks the error of a full disk: it may pass, and names the file once.
func noRoom(t *testing.T, err error, path string) {
	t.Helper()
	if err == nil || errors.Is(err, driver.ErrUnusable) || strings.Count(err.Error(), path+" could not grow: the disk may be full") != 1 {
		t.Errorf("on a full disk: %v", err)
	}
}

// Records may contain notes about what a holder waits for. They are ignored.
func TestNoteOfAHold(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	ref := mustAcquire(t, s, "r", "a", time.Hour)
	rawExec(t, raw(t, path), `UPDATE resources SET holds = json_set(holds, '$[0].waits', json(
		'{"resource": "another", "mode": "shared", "limit": 3, "placeId": "0123456789abcdef01234567", "since": 1795300000000000}'))`)
	var held *driver.HeldError
	if _, err := acquire(t.Context(), s, driver.AcquireRequest{Resource: "r", LockID: "b", HoldID: driver.NewHoldID(), TTL: time.Hour}); !errors.As(err, &held) || held.Holders[0].Ref() != ref {
		t.Errorf("error %v", err)
	}
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err != nil || rs[0].Err != nil {
		t.Errorf("renewed %+v, %v", rs, err)
	}
	mustRelease(t, s, ref)
}
