package mongodoc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/interop/oldmongodoc"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

// program is an old program of the layout.
func (l layout) program(coll *mongo.Collection) oldmongodoc.Program {
	switch l.name {
	case "TTL":
		return &oldmongodoc.Insert{Coll: coll, Now: time.Now}
	case "flag":
		return &oldmongodoc.Flag{Coll: coll, Now: time.Now, Timeout: mongodoc.DefaultTimeout}
	}
	return &oldmongodoc.Value{Coll: coll, Value: "v", Seconds: 30}
}

// oldLocks makes an old program lock the resource.
func oldLocks(t testing.TB, p oldmongodoc.Program, resource string) {
	t.Helper()
	if f, ok := p.(*oldmongodoc.Flag); ok {
		if err := f.Create(t.Context(), resource); err != nil && !mongo.IsDuplicateKeyError(err) {
			t.Fatal(err)
		}
	}
	if granted, err := p.Lock(t.Context(), resource); err != nil || !granted {
		t.Fatalf("an old program was not granted %q: error %v", resource, err)
	}
}

// All functions of a Client work beside old programs.
func TestClientBesideOldPrograms(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll := newCollection(t)
		client := holdfast.New(l.open(coll), nil)
		defer client.Close()
		p := l.program(coll)
		oldID := mongodoc.OldLockID
		if l.name == "value" {
			oldID = "v"
		}

		oldLocks(t, p, "r")
		var held *holdfast.HeldError
		if _, err := client.TryLock(t.Context(), "r", nil); !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0].LockID != oldID {
			t.Fatalf("beside an old program: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		released := make(chan error, 1)
		go func() { released <- p.Unlock(ctx, "r") }()
		h, err := client.Lock(ctx, "r", nil)
		if err := errors.Join(err, <-released); err != nil {
			t.Fatal(err)
		}
		if granted, err := p.Lock(ctx, "r"); granted || err != nil {
			t.Errorf("an old program beside the client: granted %v, error %v", granted, err)
		}
		if err := h.Unlock(ctx); err != nil {
			t.Error(err)
		}

		oldLocks(t, p, "r")
		gone, err := client.Admin().ForceRelease(ctx, "r", holdfast.HoldID{})
		if err != nil || len(gone) != 1 || gone[0].LockID != oldID {
			t.Errorf("forced release: %+v, error %v", gone, err)
		}
		oldLocks(t, p, "r")
		oldLocks(t, p, "s")
		if renewed, err := client.Admin().RenewID(ctx, oldID, time.Hour); err != nil || len(renewed) != 2 {
			t.Errorf("renewal by lock ID: %+v, error %v", renewed, err)
		}
		if gone, err := client.Admin().ReleaseID(ctx, oldID); err != nil || len(gone) != 2 {
			t.Errorf("release by lock ID: %+v, error %v", gone, err)
		}
		oldLocks(t, p, "r")
	})
}
