package mongolock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// Each statement reads all holds of a document. So one statement handles many requests
// for the document, and each request gets its own result.
func TestBatchOnOneDocument(t *testing.T) {
	near := newCollection(t)
	coll, commands := sent.Through(t, near)
	s := newStore(t, coll)
	updates := func(do func()) (n int) { // counts the statements that do sends
		for _, command := range commands.By(do) {
			if sent.Name(command) == "update" {
				statements, _ := command.Lookup("updates").Array().Values()
				n += len(statements)
			}
		}
		return n
	}
	grant := func(lockID string) driver.HoldRef { return ask.Granted(t, s, ask.Shared(ask.Request("r", lockID), 0)) }
	beside, beside2 := grant("beside"), grant("$beside")
	kept := holdsOf(t, s)
	var live []driver.HoldRef
	for i := range 10 {
		live = append(live, grant(fmt.Sprint("$live ", i)))
	}
	other, token, given, foreign := grant("other"), grant("token"), grant("given up"), grant("foreign")
	other.HoldID = driver.NewHoldID()
	token.Token++
	if rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: given, After: time.Hour}}); err != nil || rs[0].Err != nil {
		t.Fatal(rs, err)
	}
	old(t, near, obj("resource", "r", "shared.locks.lockId", "foreign"),
		obj("$set", obj("shared.locks.$.expiresAt", time.Now().Add(2*time.Hour))))
	forced := driver.HoldRef{Resource: "r", LockID: grant("forced").LockID}
	missing := driver.HoldRef{Resource: "r", LockID: "missing", HoldID: driver.NewHoldID()}

	good := append([]driver.HoldRef{forced}, live...)
	bad := []driver.HoldRef{other, token, given, foreign, missing}
	var renewals []driver.RenewRequest
	for _, ref := range append(bad, good...) {
		renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: 5 * time.Hour})
	}
	n := updates(func() {
		rs, err := s.Renew(t.Context(), renewals)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if lost := i < len(bad); errors.Is(r.Err, driver.ErrLost) != lost || !lost && (r.Err != nil || r.Left < 4*time.Hour) {
				t.Errorf("renewal of %q: %+v, want lost: %v", renewals[i].LockID, r, lost)
			}
		}
	})
	if n != 1 {
		t.Errorf("%d renewals on one document took %d statements", len(renewals), n)
	}
	// Two requests for the same lock ID are handled one after the other.
	n = updates(func() {
		renew(t, s, []driver.RenewRequest{
			{HoldRef: live[0], TTL: 6 * time.Hour}, {HoldRef: live[1], TTL: 7 * time.Hour}, {HoldRef: live[0], TTL: 6 * time.Hour},
		}, -1)
	})
	if n != 2 {
		t.Errorf("two renewals of one lock ID took %d statements, want 2", n)
	}
	after := holdsOf(t, s)
	for _, ref := range good {
		want := 5 * time.Hour
		switch ref {
		case live[0]:
			want = 6 * time.Hour
		case live[1]:
			want = 7 * time.Hour
		}
		if st := after[ref.LockID]; st.Left > want || st.Left < want-30*time.Minute || st.Renewed.IsZero() {
			t.Errorf("%q is %+v, want it renewed for %v", ref.LockID, st, want)
		}
	}
	for _, ref := range bad[:4] {
		if st := after[ref.LockID]; !st.Renewed.IsZero() || st.Left > 4*time.Hour {
			t.Errorf("%q must not be renewed, but is %+v", ref.LockID, st)
		}
	}

	// Releases: some immediate, some later, and some for missing holds.
	var releases []driver.ReleaseRequest
	for i, ref := range append(bad, good...) {
		q := driver.ReleaseRequest{HoldRef: ref}
		if i%2 == 0 {
			q.After = time.Minute
		}
		releases = append(releases, q)
	}
	n = updates(func() {
		rs, err := s.Release(t.Context(), releases)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			ref := releases[i].HoldRef
			found := i >= len(bad) || ref == given
			if r.Err != nil || r.Found != found || r.Remains != (ref == foreign) {
				t.Errorf("release of %q: %+v, want found: %v", ref.LockID, r, found)
			}
		}
	})
	if n != 1 {
		t.Errorf("%d releases on one document took %d statements", len(releases), n)
	}
	after = holdsOf(t, s)
	for i, q := range releases {
		st, there := after[q.LockID]
		found := i >= len(bad) || q.HoldRef == given
		if want := !found && q.HoldRef != missing || found && q.After > 0; there != want || found && there && st.Left > time.Minute {
			t.Errorf("%q was released after %v and is %+v, there: %v", q.LockID, q.After, st, there)
		}
	}
	for _, ref := range []driver.HoldRef{beside, beside2} {
		was, is := kept[ref.LockID], after[ref.LockID]
		was.Left, is.Left, is.Seen = 0, 0, was.Seen
		if was != is {
			t.Errorf("the hold beside them was %+v and is %+v", was, is)
		}
	}
	doc := raw(t, near, "r")
	locks, err := doc.Lookup("shared", "locks").Array().Values()
	if err != nil {
		t.Fatal(err)
	}
	if count := doc.Lookup("shared", "count").AsInt64(); int(count) != len(locks) {
		t.Errorf("count is %d, of %d locks", count, len(locks))
	}
	if _, err := doc.LookupErr("_holdfast"); err == nil {
		t.Errorf("the scratch field is left: %v", doc)
	}

	// Requests for missing holds change nothing.
	before := raw(t, near, "r")
	if rs, err := s.Renew(t.Context(), renewals[:len(bad)]); err != nil || !errors.Is(rs[0].Err, driver.ErrLost) {
		t.Error(rs, err)
	}
	if is := raw(t, near, "r"); is.String() != before.String() {
		t.Errorf("renewals of missing holds changed the document from\n%v\nto\n%v", before, is)
	}
}

func holdsOf(t *testing.T, s driver.Store) map[string]driver.Status {
	t.Helper()
	m := make(map[string]driver.Status)
	for st, err := range s.List(t.Context(), driver.Filter{Resource: "r"}) {
		if err != nil {
			t.Fatal(err)
		}
		m[st.LockID] = st
	}
	return m
}
