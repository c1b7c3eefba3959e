package dropin_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// everything calls every function that sends a request about resource and lockId.
func everything(ctx context.Context, c *lock.Client, resource, lockID string) map[string]error {
	errs := map[string]error{
		"XLock": c.XLock(ctx, resource, lockID, lock.LockDetails{}),
		"SLock": c.SLock(ctx, resource, lockID, lock.LockDetails{}, -1),
	}
	_, errs["Renew"] = c.Renew(ctx, lockID, 10)
	_, errs["Unlock"] = c.Unlock(ctx, lockID)
	_, errs["Status"] = c.Status(ctx, lock.Filter{Resource: resource, LockId: lockID})
	return errs
}

// failed checks that the error cannot be mistaken for an answer.
func failed(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, lock.ErrAlreadyLocked) || errors.Is(err, lock.ErrLockNotFound) {
		t.Errorf("%s: error %v, want an error that is not an answer", what, err)
	}
}

// Invalid arguments are refused, and nothing is sent.
func TestInvalid(t *testing.T) {
	f := newFixture(t)
	f.x("r", "a", 100)
	coll, commands := sent.Through(t, f.coll)
	c := lock.NewClient(coll)
	ctx := t.Context()
	var errs map[string]error
	commands.Want(t, "what is invalid", nil, func() {
		errs = map[string]error{
			"XLock of nothing":  c.XLock(ctx, "", "a", lock.LockDetails{}),
			"SLock of nothing":  c.SLock(ctx, "", "a", lock.LockDetails{}, -1),
			"SLock for nobody":  c.SLock(ctx, "r", "", lock.LockDetails{}, 0),
			"XLock for nobody":  c.XLock(ctx, "r", "", lock.LockDetails{}),
			"owner is no UTF-8": c.XLock(ctx, "r", "a", lock.LockDetails{Owner: "\xff"}),
			"host is too long":  c.XLock(ctx, "r", "a", lock.LockDetails{Host: strings.Repeat("h", 1025)}),
			"NUL in a comment":  c.SLock(ctx, "r", "a", lock.LockDetails{Comment: "a\x00"}, -1),
			"TTL is too long":   c.XLock(ctx, "r", "a", lock.LockDetails{TTL: 100*365*86400 + 1}),
			"TTL of the most":   c.SLock(ctx, "r", "a", lock.LockDetails{TTL: math.MaxUint}, -1),
		}
		for how, name := range map[string]string{"too long": strings.Repeat("n", 1025), "with NUL": "a\x00", "no UTF-8": "\xff"} {
			for what, err := range everything(ctx, c, name, name) {
				errs[what+" of a name "+how] = err
			}
		}
		// An empty lockId would mean all locks.
		_, errs["Unlock of nothing"] = c.Unlock(ctx, "")
		_, errs["Renew of nothing"] = c.Renew(ctx, "", 10)
		_, errs["Renew for too long"] = c.Renew(ctx, "a", math.MaxUint)
		_, errs["Status of an owner"] = c.Status(ctx, lock.Filter{Owner: "\xff"})
	})
	for what, err := range errs {
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", what, err)
		}
		failed(t, what, err)
	}
	want(t, f.status(lock.Filter{}), "r/a")
}

func TestDeadContext(t *testing.T) {
	f := newFixture(t)
	f.x("r", "a", 100)
	coll, commands := sent.Through(t, f.coll)
	c := lock.NewClient(coll)
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	var errs map[string]error
	commands.Want(t, "a dead context", nil, func() {
		errs = everything(dead, c, "r", "a")
		errs["CreateIndexes"] = c.CreateIndexes(dead)
		_, errs["Purge"] = lock.NewPurger(c).Purge(dead)
	})
	for what, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}
