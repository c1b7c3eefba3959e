package sqlitelock

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
)

// testClock is a machine whose time the test sets.
type testClock struct{ up time.Duration }

func newTestStore(t testing.TB) (*store, *testClock) {
	t.Helper()
	tc := new(testClock)
	sys := thisSystem()
	sys.clockSource = clockSource{
		wall:   func() time.Time { return time.Unix(1_800_000_000, 0) },
		boot:   func() (string, error) { return "boot", nil },
		uptime: func() time.Duration { return tc.up },
	}
	s, err := openBackend(t.Context(), filepath.Join(t.TempDir(), "locks.db"), nil, sys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, tc
}

func (s *store) take(ctx context.Context, resource string, ttl time.Duration) (driver.HoldRef, error) {
	q := driver.AcquireRequest{Resource: resource, LockID: "a", HoldID: driver.NewHoldID(), TTL: ttl}
	g, err := base.New(s).Acquire(ctx, q)
	return driver.HoldRef{Resource: resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}, err
}

func (s *store) mustTake(t testing.TB, resource string, ttl time.Duration) driver.HoldRef {
	t.Helper()
	ref, err := s.take(t.Context(), resource, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (s *store) mustGiveUp(t testing.TB, ref driver.HoldRef) {
	t.Helper()
	rs, err := base.New(s).Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
}

func (s *store) script(ctx context.Context, text string) error {
	return s.write(ctx, false, func(c *conn) error {
		_, err := c.exec(text)
		return err
	}, nil)
}

func (s *store) count(t testing.TB, condition string) (n int64) {
	t.Helper()
	if err := s.read(t.Context(), func(c *conn) error {
		return c.integers("SELECT count(*) FROM resources WHERE "+condition, nil, &n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *store) scanned(t testing.TB) (names []string) {
	t.Helper()
	for e, err := range s.Scan(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Record.Resource)
	}
	return names
}

func (s *store) dueAfter(t testing.TB, idle time.Duration) (names []string) {
	t.Helper()
	for name, err := range s.Due(t.Context(), idle) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

// Listing holds reads no rows that a sweep has unlisted, and the next sweep finds them by
// their age. A record with holds is always listed, whatever happens between a sweep and an
// acquire.
func TestListed(t *testing.T) {
	s, clock := newTestStore(t)
	const idle = 2*pageSize + 10
	for i := range idle {
		s.mustGiveUp(t, s.mustTake(t, fmt.Sprintf("idle %04d", i), time.Hour))
	}
	s.mustTake(t, "held", time.Hour)
	if names := s.dueAfter(t, time.Minute); len(names) != 0 {
		t.Errorf("%d are due at once", len(names))
	}
	if n := s.count(t, "listed IS NOT NULL"); n != idle+1 {
		t.Errorf("%d listed just after use, want all %d", n, idle+1)
	}
	clock.up += 2 * time.Minute
	for _, c := range []struct {
		idle time.Duration
		want int
	}{{time.Hour, 0}, {time.Minute, idle}, {time.Minute, idle}} {
		if names := s.dueAfter(t, c.idle); len(names) != c.want {
			t.Errorf("%d are due after %v, want %d", len(names), c.idle, c.want)
		}
		if n := s.count(t, "listed IS NOT NULL"); n != 1 {
			t.Errorf("%d listed after a sweep, want 1", n)
		}
	}
	s.mustTake(t, "idle 0007", time.Hour)
	if names := s.scanned(t); !slices.Equal(names, []string{"held", "idle 0007"}) {
		t.Errorf("holds: %q", names)
	}
	if names := s.dueAfter(t, time.Minute); len(names) != idle-1 {
		t.Errorf("%d are due, want %d", len(names), idle-1)
	}
}

// A sweep finds what is due by the index: of what is not, it reads nothing.
func TestDueByIndex(t *testing.T) {
	s, _ := newTestStore(t)
	var plan []string
	if err := s.read(t.Context(), func(c *conn) error {
		return c.query("EXPLAIN QUERY PLAN "+idleSQL, func(row []sqldriver.Value) error {
			plan = append(plan, fmt.Sprint(row[3]))
			return nil
		}, int64(1), int64(-1), "", int64(1))
	}); err != nil {
		t.Fatal(err)
	}
	if len(plan) != 1 || !strings.Contains(plan[0], "SEARCH resources USING") || !strings.Contains(plan[0], "INDEX idle") {
		t.Errorf("SQLite would %q", plan)
	}
}

// Holds once had notes of what their holders wait for. They are ignored.
func TestNoteOfAHold(t *testing.T) {
	s, _ := newTestStore(t)
	ref := s.mustTake(t, "r", time.Hour)
	if err := s.script(t.Context(), `UPDATE resources SET holds = json_set(holds, '$[0].waits', json(
		'{"resource": "another", "mode": "shared", "limit": 3, "placeId": "0123456789abcdef01234567", "since": 1795300000000000}'))`); err != nil {
		t.Fatal(err)
	}
	var held *driver.HeldError
	if _, err := s.take(t.Context(), "r", time.Hour); !errors.As(err, &held) || held.Holders[0].Ref() != ref {
		t.Errorf("error %v", err)
	}
	rs, err := base.New(s).Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err != nil || rs[0].Err != nil {
		t.Errorf("renewed %+v, %v", rs, err)
	}
	s.mustGiveUp(t, ref)
}

// A damaged row costs no other resource anything, is named, and stays as it is.
func TestDamaged(t *testing.T) {
	for damage, statement := range map[string]string{
		"no JSON":         `UPDATE resources SET holds = '[{' WHERE resource = 'bad'`,
		"no hold":         `UPDATE resources SET holds = '[{}]' WHERE resource = 'bad'`,
		"no places":       `UPDATE resources SET places = '[{}]' WHERE resource = 'bad'`,
		"no array":        `UPDATE resources SET holds = '7' WHERE resource = 'bad'`,
		"token too large": `UPDATE resources SET token = 1 << 60 WHERE resource = 'bad'`,
		"no token":        `UPDATE resources SET token = 0 WHERE resource = 'bad'`,
		"version":         `UPDATE resources SET touched = -5 WHERE resource = 'bad'`,
	} {
		t.Run(damage, func(t *testing.T) {
			s, clock := newTestStore(t)
			refs := make(map[string]driver.HoldRef)
			for _, r := range []string{"a", "bad", "z"} {
				refs[r] = s.mustTake(t, r, time.Minute)
			}
			s.mustTake(t, "expired", time.Millisecond)
			if err := s.script(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			before := rowText(t, s)
			isDamaged := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, driver.ErrDamaged) || !contains(err, `"bad"`) || !contains(err, s.file.path) {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err := s.take(t.Context(), "bad", time.Minute)
			isDamaged("acquire", err)
			var qs []driver.RenewRequest
			for _, r := range []string{"a", "bad", "z"} {
				qs = append(qs, driver.RenewRequest{HoldRef: refs[r], TTL: time.Hour})
			}
			rs, err := base.New(s).Renew(t.Context(), qs)
			if err != nil || rs[0].Err != nil || rs[2].Err != nil {
				t.Fatalf("renewals beside a damaged record: %v, error %v", rs, err)
			}
			isDamaged("renewal", rs[1].Err)
			var seen []string
			var last error
			for e, err := range s.Scan(t.Context(), "") {
				if last = err; err == nil {
					seen = append(seen, e.Record.Resource)
				}
			}
			isDamaged("scan", last)
			if fmt.Sprint(seen) != "[a expired z]" {
				t.Errorf("a scan yields %v", seen)
			}
			clock.up += time.Second
			swept, err := base.New(s).Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour})
			isDamaged("sweep", err)
			if swept.Holds != 1 {
				t.Errorf("swept %+v, want the hold that is over", swept)
			}
			if after := rowText(t, s); after != before {
				t.Errorf("the row was %s and is %s", before, after)
			}
		})
	}
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

func rowText(t *testing.T, s *store) (text string) {
	t.Helper()
	if err := s.read(t.Context(), func(c *conn) error {
		return c.query("SELECT * FROM resources WHERE resource = 'bad'", func(row []sqldriver.Value) error {
			text = fmt.Sprint(row)
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return text
}
