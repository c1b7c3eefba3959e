// Package dropin_test tests the drop-in for mongo-lock against a server.
package dropin_test

import (
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/interop/oldmongolock"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

// The drop-in's clients are never closed, so they must not leave goroutines behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a collection with a client of the drop-in, and with an old client of
// mongo-lock whose clock is right.
type fixture struct {
	*lock.Client
	t     *testing.T
	coll  *mongo.Collection
	clock *engines.MongoClock
	old   *oldmongolock.Client
}

func newFixture(t *testing.T) *fixture {
	coll := engines.MongoDatabase(t).Collection("locks")
	f := &fixture{Client: lock.NewClient(coll), t: t, coll: coll, clock: engines.NewMongoClock(t, coll.Database())}
	f.old = oldmongolock.New(coll, f.clock.Now)
	return f
}

func (f *fixture) pass(d time.Duration) {
	f.t.Helper()
	if err := f.clock.Pass(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) x(resource, lockID string, ttl uint) {
	f.t.Helper()
	if err := f.XLock(f.t.Context(), resource, lockID, lock.LockDetails{TTL: ttl}); err != nil {
		f.t.Fatalf("exclusive lock of %s by %s: %v", resource, lockID, err)
	}
}

func (f *fixture) s(resource, lockID string, ttl uint, most int) {
	f.t.Helper()
	if err := f.SLock(f.t.Context(), resource, lockID, lock.LockDetails{TTL: ttl}, most); err != nil {
		f.t.Fatalf("shared lock of %s by %s: %v", resource, lockID, err)
	}
}

// refused compares errors as programs with mongo-lock do.
func refused(t *testing.T, err error) {
	t.Helper()
	if err != lock.ErrAlreadyLocked { //nolint:errorlint // programs compare so
		t.Errorf("error %v, want ErrAlreadyLocked", err)
	}
}

func notFound(t *testing.T, err error) {
	t.Helper()
	if err != lock.ErrLockNotFound { //nolint:errorlint // programs compare so
		t.Errorf("error %v, want ErrLockNotFound", err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (f *fixture) status(filter lock.Filter) []lock.LockStatus {
	f.t.Helper()
	return must[[]lock.LockStatus](f.t)(f.Status(f.t.Context(), filter))
}

// names returns the locks as resource/lockId, in their order.
func names(ls []lock.LockStatus) []string {
	all := make([]string, len(ls))
	for i, l := range ls {
		all[i] = l.Resource + "/" + l.LockId
	}
	return all
}

func want(t *testing.T, got []lock.LockStatus, want ...string) {
	t.Helper()
	if g := names(got); got == nil || !slices.Equal(g, want) {
		t.Errorf("got %q, want %q", g, want)
	}
}

func (f *fixture) raw(resource string) bson.Raw {
	f.t.Helper()
	return must[bson.Raw](f.t)(f.coll.FindOne(f.t.Context(), bson.M{"resource": resource}).Raw())
}

func (f *fixture) counted(resource string, n int) {
	f.t.Helper()
	shared := f.raw(resource).Lookup("shared").Document()
	locks := must[[]bson.RawValue](f.t)(shared.Lookup("locks").Array().Values())
	if count := shared.Lookup("count").AsInt64(); int(count) != n || len(locks) != n {
		f.t.Errorf("%s: count is %d and there are %d shared locks, want %d", resource, count, len(locks), n)
	}
}
