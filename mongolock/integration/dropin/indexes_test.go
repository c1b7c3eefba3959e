package dropin_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

func (f *fixture) indexes() (all []string) {
	f.t.Helper()
	specs := must[[]mongo.IndexSpecification](f.t)(f.coll.Indexes().ListSpecifications(f.t.Context()))
	for _, s := range specs {
		name := s.Name
		if s.Unique != nil && *s.Unique && s.Name != "_id_" {
			name += " unique"
		}
		if s.Sparse != nil && *s.Sparse {
			name += " sparse"
		}
		all = append(all, name)
	}
	return all
}

var wanted = []string{
	"_id_", "resource_1 unique sparse", "exclusive.lockId_1", "exclusive.expiresAt_1",
	"shared.locks.lockId_1", "shared.locks.expiresAt_1", "waiters.lockId_1 sparse", "touched_1",
}

// The first use creates the indexes, whatever it is, even if there are several at once.
func TestFirstUse(t *testing.T) {
	for what, use := range map[string]func(*fixture) error{
		"CreateIndexes": func(f *fixture) error { return f.CreateIndexes(f.t.Context()) },
		"XLock":         func(f *fixture) error { return f.XLock(f.t.Context(), "r", "a", lock.LockDetails{}) },
		"SLock":         func(f *fixture) error { return f.SLock(f.t.Context(), "r", "a", lock.LockDetails{}, -1) },
		"Status":        func(f *fixture) error { _, err := f.Status(f.t.Context(), lock.Filter{}); return err },
		"Unlock":        func(f *fixture) error { _, err := f.Unlock(f.t.Context(), "a"); return err },
		"Renew":         func(f *fixture) error { _, err := f.Renew(f.t.Context(), "a", 10); return err },
		"Purge":         func(f *fixture) error { _, err := lock.NewPurger(f.Client).Purge(f.t.Context()); return err },
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					err := use(f)
					if err != nil && !errors.Is(err, lock.ErrLockNotFound) && !errors.Is(err, lock.ErrAlreadyLocked) {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			if got := f.indexes(); !slices.Equal(got, wanted) {
				t.Errorf("indexes %q", got)
			}
		})
	}
}

// Without the unique index nothing is locked. Each use returns the reason, until it is
// fixed.
func TestIndexCannotBeMade(t *testing.T) {
	f := newFixture(t)
	twice := []any{bson.M{"resource": "r"}, bson.M{"resource": "r"}}
	if _, err := f.coll.InsertMany(t.Context(), twice); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		errs := everything(t.Context(), f.Client, "other", "a")
		errs["CreateIndexes"] = f.CreateIndexes(t.Context())
		_, errs["Purge"] = lock.NewPurger(f.Client).Purge(t.Context())
		for what, err := range errs {
			failed(t, what, err)
			if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), `"r" (2)`) {
				t.Errorf("%s: error %v, want ErrUnusable and the duplicates", what, err)
			}
		}
	}
	if _, err := f.coll.DeleteOne(t.Context(), bson.M{"resource": "r"}); err != nil {
		t.Fatal(err)
	}
	f.x("r", "a", 0)
}
