package sqlitelock

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

// testClock is a machine whose time the test sets.
type testClock struct{ up time.Duration }

func newTestStore(t *testing.T) (*store, *testClock) {
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

func (s *store) mustLoad(t *testing.T, resource string) cas.Entry {
	t.Helper()
	e, err := s.Load(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (s *store) mustSwap(t *testing.T, c cas.Change, want bool) {
	t.Helper()
	done, err := s.Swap(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if done != want {
		t.Fatalf("swap of %q at version %d: %v, want %v", c.New.Resource, c.Old, done, want)
	}
}

// taken is the change that acquires the resource of an entry.
func taken(t *testing.T, e cas.Entry) cas.Change {
	t.Helper()
	r, _, changed, err := model.Acquire(e.Record, e.Now, driver.AcquireRequest{
		Resource: e.Record.Resource, LockID: "a", HoldID: driver.NewHoldID(), TTL: time.Second,
	})
	if err != nil || !changed {
		t.Fatalf("acquire: %v %v", changed, err)
	}
	return cas.Change{Old: e.Version, New: r}
}

// emptied is the change that drops the holds of an entry.
func emptied(e cas.Entry) cas.Change {
	r := e.Record
	r.Holds = nil
	r.Touched = max(r.Touched+1, e.Now)
	return cas.Change{Old: e.Version, New: r, Wake: true}
}

// A swap that was prepared before the record came, went and was swept is
// refused, even if it was to make the first record: its token would be old.
func TestStaleInsert(t *testing.T) {
	s, clock := newTestStore(t)
	stale := taken(t, s.mustLoad(t, "r"))
	s.mustSwap(t, stale, true)
	s.mustSwap(t, stale, false)
	e := s.mustLoad(t, "r")
	s.mustSwap(t, emptied(e), true)
	s.mustSwap(t, emptied(e), false)
	clock.up += time.Hour
	e = s.mustLoad(t, "r")
	s.mustSwap(t, cas.Change{Old: e.Version + 2, New: e.Record, Delete: true}, false)
	s.mustSwap(t, cas.Change{Old: e.Version, New: e.Record, Delete: true}, true)
	s.mustSwap(t, stale, false)
	again := taken(t, s.mustLoad(t, "r"))
	if again.New.Token <= stale.New.Token {
		t.Errorf("token %d after %d", again.New.Token, stale.New.Token)
	}
	s.mustSwap(t, again, true)
}

// Listing holds reads no rows that were unlisted by a sweep; and whatever
// happens between a sweep and an acquire, what has holds is listed.
func TestListed(t *testing.T) {
	s, clock := newTestStore(t)
	listed := func() (n int64) {
		t.Helper()
		if err := s.read(t.Context(), func(c *conn) (err error) {
			n, err = c.integer("SELECT count(*) FROM resources WHERE listed IS NOT NULL")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	scan := func(idle bool) (es []cas.Entry) {
		t.Helper()
		for e, err := range s.Scan(t.Context(), cas.Query{Idle: idle}) {
			if err != nil {
				t.Fatal(err)
			}
			es = append(es, e)
		}
		return es
	}
	const idle = 2*pageSize + 10
	for i := range idle {
		name := fmt.Sprintf("idle %04d", i)
		s.mustSwap(t, taken(t, s.mustLoad(t, name)), true)
		s.mustSwap(t, emptied(s.mustLoad(t, name)), true)
	}
	s.mustSwap(t, taken(t, s.mustLoad(t, "held")), true)
	if n := len(scan(true)); n != idle+1 {
		t.Fatalf("%d records, want %d", n, idle+1)
	}
	if n := listed(); n != idle+1 {
		t.Errorf("%d listed just after use, want all %d", n, idle+1)
	}
	clock.up += 2 * time.Minute
	before := s.mustLoad(t, "idle 0007")
	swept := scan(true)
	if n := listed(); n != 1 {
		t.Errorf("%d listed after a sweep, want 1", n)
	}
	if es := scan(false); len(es) != 1 || es[0].Record.Resource != "held" {
		t.Errorf("holds: %+v", es)
	}
	// Decided before the sweep: the row is not the one that was loaded.
	s.mustSwap(t, taken(t, before), false)
	s.mustSwap(t, taken(t, s.mustLoad(t, "idle 0007")), true)
	// Decided on what the sweep yielded: that is the row as it is.
	for _, e := range swept {
		if e.Record.Resource == "idle 0009" {
			s.mustSwap(t, cas.Change{Old: e.Version, New: e.Record, Delete: true}, true)
		}
	}
	if es := scan(false); len(es) != 2 {
		t.Errorf("%d resources with holds, want 2", len(es))
	}
	if n := listed(); n != 2 {
		t.Errorf("%d listed, want 2", n)
	}
}

func TestBatch(t *testing.T) {
	s, _ := newTestStore(t)
	names := []string{"a", `quotes "'\`, "<&>\u2028", "emoji 🔒", "z"}
	es, err := s.LoadAll(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	var cs []cas.Change
	for i, e := range es {
		if e.Record.Resource != names[i] || e.Version != 0 || e.Now == 0 {
			t.Errorf("%q: %+v", names[i], e)
		}
		cs = append(cs, taken(t, e))
	}
	s.mustSwap(t, cs[2], true) // somebody is faster with one
	done, err := s.SwapAll(t.Context(), cs)
	if err != nil {
		t.Fatal(err)
	}
	for i, ok := range done {
		if ok != (i != 2) {
			t.Errorf("%q: %v", names[i], ok)
		}
	}
	es, err = s.LoadAll(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range es {
		if one := s.mustLoad(t, names[i]); e.Version == 0 || e.Version != one.Version || len(e.Record.Holds) != 1 {
			t.Errorf("%q: %+v, alone %+v", names[i], e, one)
		}
	}
}

// A damaged row costs no other resource anything, is named, and stays as it is.
func TestDamaged(t *testing.T) {
	for damage, statement := range map[string]string{
		"no JSON":         `UPDATE resources SET holds = '[{' WHERE resource = 'bad'`,
		"no hold":         `UPDATE resources SET holds = '[{}]' WHERE resource = 'bad'`,
		"no array":        `UPDATE resources SET holds = '7' WHERE resource = 'bad'`,
		"token too large": `UPDATE resources SET token = 1 << 60 WHERE resource = 'bad'`,
		"no token":        `UPDATE resources SET token = 0 WHERE resource = 'bad'`,
		"version":         `UPDATE resources SET touched = -5 WHERE resource = 'bad'`,
	} {
		t.Run(damage, func(t *testing.T) {
			s, _ := newTestStore(t)
			for _, r := range []string{"a", "bad", "z"} {
				s.mustSwap(t, taken(t, s.mustLoad(t, r)), true)
			}
			if err := s.write(t.Context(), func(c *conn) error { return c.script(statement) }); err != nil {
				t.Fatal(err)
			}
			before := rowText(t, s)
			isDamaged := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, driver.ErrDamaged) || !contains(err, `"bad"`) || !contains(err, s.file) {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err := s.Load(t.Context(), "bad")
			isDamaged("load", err)
			_, err = s.LoadAll(t.Context(), []string{"a", "bad"})
			isDamaged("load of several", err)
			st := cas.New(s)
			_, err = st.Acquire(t.Context(), driver.AcquireRequest{
				Resource: "bad", LockID: "b", HoldID: driver.NewHoldID(), TTL: time.Minute,
			})
			isDamaged("acquire", err)
			for _, idle := range []bool{false, true} {
				var seen []string
				var last error
				for e, err := range s.Scan(t.Context(), cas.Query{Idle: idle}) {
					if last = err; err == nil {
						seen = append(seen, e.Record.Resource)
					}
				}
				isDamaged("scan", last)
				if fmt.Sprint(seen) != "[a z]" {
					t.Errorf("a scan yields %v", seen)
				}
			}
			s.mustSwap(t, emptied(s.mustLoad(t, "a")), true)
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
