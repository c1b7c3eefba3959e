package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// Operation prepares in the store what a call needs.
type Operation func(t *testing.T, s driver.Store, resource string) Prepared

// Prepared is a call that is about to meet a fault.
type Prepared struct {
	// Do makes the call.
	Do func(context.Context, driver.Store) error
	// Done reports whether the server has done it. nil: the call changes nothing, or needs
	// several statements.
	Done func() bool
	// Check checks the content of the store after the call was repeated until it succeeded.
	Check func()
}

// Operations are the operations of a store, by name.
var Operations = map[string]Operation{
	"acquire": acquiring(ask.Request("", "a"), true, func(*testing.T, driver.Store, string) {}),
	"acquire that is refused": acquiring(ask.Request("", "a"), false, func(t *testing.T, s driver.Store, resource string) {
		ask.Granted(t, s, ask.Request(resource, "another"))
	}),
	"shared acquire": acquiring(ask.Shared(ask.Request("", "a"), 2), true, func(t *testing.T, s driver.Store, resource string) {
		ask.Granted(t, s, ask.Shared(ask.Request(resource, "another"), 2))
	}),
	"renew":              renewing,
	"release":            releasing(1),
	"release of a batch": releasing(3),
	"list": readOnly(func(ctx context.Context, s driver.Store) error {
		for _, err := range s.List(ctx, driver.Filter{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}),
	"sweep": readOnly(func(ctx context.Context, s driver.Store) error {
		_, err := s.Sweep(ctx, driver.SweepRequest{Idle: time.Hour})
		return err
	}),
	"init": readOnly(func(ctx context.Context, s driver.Store) error { return s.(driver.Initializer).Init(ctx) }),
	"watch": readOnly(func(ctx context.Context, s driver.Store) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := s.(driver.Watcher).Watch(ctx, "r")
		return err
	}),
}

func initialize(ctx context.Context, s driver.Store) error {
	if i, ok := s.(driver.Initializer); ok {
		return i.Init(ctx)
	}
	return nil
}

// supports reports whether the store has the operation.
func supports(s driver.Store, name string) bool {
	switch _, initializes := s.(driver.Initializer); name {
	case "shared acquire":
		return s.Traits().Shared
	case "init":
		return initializes
	case "watch":
		return s.Traits().Notifies
	}
	return true
}

// listed returns the hold of a lock ID.
func listed(t *testing.T, s driver.Store, resource, lockID string) (found driver.Status) {
	t.Helper()
	for st, err := range s.List(t.Context(), driver.Filter{Resource: resource, LockID: lockID}) {
		if err != nil {
			t.Fatal(err)
		}
		found = st
	}
	return found
}

func acquiring(q driver.AcquireRequest, granted bool, prepare func(*testing.T, driver.Store, string)) Operation {
	return func(t *testing.T, s driver.Store, resource string) Prepared {
		q := q
		q.Resource, q.HoldID = resource, driver.NewHoldID()
		prepare(t, s, resource)
		var got driver.Grant
		return Prepared{
			Do: func(ctx context.Context, s driver.Store) (err error) {
				if got, err = s.Acquire(ctx, q); !granted && errors.Is(err, driver.ErrHeld) {
					return nil
				}
				return err
			},
			Done: func() bool { return !granted || listed(t, s, resource, "a").HoldID == q.HoldID },
			Check: func() {
				if st := listed(t, s, resource, "a"); granted && (st.HoldID != q.HoldID || st.Token != got.Token) {
					t.Errorf("granted %+v, the store has %+v", got, st)
				}
				again, err := s.Acquire(t.Context(), q)
				if granted && (err != nil || again.Token != got.Token) || !granted && !errors.Is(err, driver.ErrHeld) {
					t.Errorf("granted %+v, and then %+v with error %v", got, again, err)
				}
			},
		}
	}
}

// take acquires n resources.
func take(t *testing.T, s driver.Store, resource string, n int) (refs []driver.HoldRef) {
	for range n {
		refs = append(refs, ask.Granted(t, s, ask.Request(resource, "a")))
		resource += " and another"
	}
	return refs
}

func renewing(t *testing.T, s driver.Store, resource string) Prepared {
	var qs []driver.RenewRequest
	for _, ref := range take(t, s, resource, 3) {
		qs = append(qs, driver.RenewRequest{HoldRef: ref, TTL: 5 * time.Hour})
	}
	renewed := func() bool {
		for _, q := range qs {
			if st := listed(t, s, q.Resource, "a"); st.Ref() != q.HoldRef || st.Left < 4*time.Hour {
				return false
			}
		}
		return true
	}
	return Prepared{
		Do: func(ctx context.Context, s driver.Store) error {
			rs, err := s.Renew(ctx, qs)
			for _, r := range rs {
				err = errors.Join(err, r.Err)
			}
			return err
		},
		Done: renewed,
		Check: func() {
			if !renewed() {
				t.Error("the holds were not all renewed")
			}
		},
	}
}

func releasing(n int) Operation {
	return func(t *testing.T, s driver.Store, resource string) Prepared {
		refs := take(t, s, resource, n)
		qs := make([]driver.ReleaseRequest, len(refs))
		for i, ref := range refs {
			qs[i].HoldRef = ref
		}
		p := Prepared{Do: func(ctx context.Context, s driver.Store) error {
			rs, err := s.Release(ctx, qs)
			for _, r := range rs {
				err = errors.Join(err, r.Err)
			}
			return err
		}}
		if n == 1 {
			p.Done = func() bool { return listed(t, s, resource, "a").HoldID.IsZero() }
		}
		p.Check = func() {
			// The successor has the same lock ID: only hold ID and token differ.
			var next []driver.HoldRef
			for _, ref := range refs {
				next = append(next, ask.Granted(t, s, ask.Request(ref.Resource, "a")))
			}
			if err := p.Do(t.Context(), s); err != nil {
				t.Errorf("repeated: %v", err)
			}
			for _, ref := range next {
				if st := listed(t, s, ref.Resource, "a"); st.Ref() != ref {
					t.Errorf("the successor is %+v, the store has %+v", ref, st)
				}
			}
		}
		return p
	}
}

// readOnly is an Operation that leaves live holds as they are.
func readOnly(do func(context.Context, driver.Store) error) Operation {
	return func(t *testing.T, s driver.Store, resource string) Prepared {
		ref := ask.Granted(t, s, ask.Request(resource, "a"))
		return Prepared{Do: do, Check: func() {
			if st := listed(t, s, resource, "a"); st.Ref() != ref {
				t.Errorf("the store has %+v, want the hold %+v", st, ref)
			}
		}}
	}
}
