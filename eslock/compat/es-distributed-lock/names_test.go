package lock

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/eslock"
)

// Everything that programs with es-distributed-lock call exists, with the same types.
var (
	_ func(client eslock.Performer, id string) *Lock = NewLock

	_ interface {
		WithOwner(owner string) *Lock
		Acquire(ctx context.Context, ttl time.Duration) error
		KeepAlive(ctx context.Context, beforeExpiry time.Duration) error
		Release() error
		MustRelease() error
		IsAcquired() bool
		IsReleased() bool
	} = (*Lock)(nil)

	_ = Lock{ID: "", Owner: "", Acquired: time.Time{}, Expires: time.Time{}}
)

// The owner is a UUID, the same for all locks of the process.
func TestDefaultOwner(t *testing.T) {
	a, b := NewLock(nil, "a"), NewLock(nil, "b")
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a.Owner) {
		t.Errorf("owner %q", a.Owner)
	}
	if a.Owner != b.Owner || a.ID != "a" || a.Owner == newUUID() {
		t.Errorf("%+v and %+v", a, b)
	}
	if c := b.WithOwner("me"); c != b || b.Owner != "me" || a.Owner == "me" {
		t.Errorf("with an owner: %+v", c)
	}
}

// Programs log locks, or keep them, as JSON.
func TestJSON(t *testing.T) {
	l := NewLock(nil, "a").WithOwner("me")
	l.Acquired, l.Expires = time.Unix(1, 0).UTC(), time.Unix(2, 0).UTC()
	got, err := json.Marshal(l)
	if want := `{"owner":"me","acquired":"1970-01-01T00:00:01Z","expires":"1970-01-01T00:00:02Z"}`; err != nil || string(got) != want {
		t.Errorf("%s, error %v; want %s", got, err, want)
	}
}
