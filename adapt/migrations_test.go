package adapt_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestMigrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		m := adapt.NewMigrations(mine, "migrations", nil)
		elsewhere := adapt.NewMigrations(others, "migrations", nil)

		// Outside of Migrate.
		is(t, m.Lock(t.Context(), nil), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		is(t, elsewhere.Lock(ctx, nil), context.DeadlineExceeded)
		seize(t, others, "migrations")
		time.Sleep(time.Minute)
		is(t, m.Unlock(t.Context(), nil), holdfast.ErrForced)
		is(t, m.Unlock(t.Context(), nil), adapt.ErrNotHeld)

		// Within Migrate.
		failure := errors.New("the migration stopped")
		err := m.Migrate(t.Context(), func(ctx context.Context) error {
			is(t, m.Lock(ctx, nil), nil)
			if free(t, others, "migrations") {
				t.Error("nothing is locked")
			}
			is(t, m.Unlock(context.WithoutCancel(ctx), nil), nil)
			if free(t, others, "migrations") {
				t.Error("the provider's Unlock released the lock of Migrate")
			}
			seize(t, others, "migrations")
			lost(t, ctx)
			is(t, m.Lock(ctx, nil), holdfast.ErrForced)
			is(t, m.Unlock(context.WithoutCancel(ctx), nil), holdfast.ErrForced)
			return failure
		})
		is(t, err, failure)
		is(t, err, holdfast.ErrForced)
		is(t, m.Migrate(t.Context(), func(context.Context) error { return nil }), nil)
	})
}

// goose lets the next Up begin before the last one has released its lock
func TestMigrationsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := adapt.NewMigrations(newClient(t, memlock.New(nil)), "migrations", nil)
		is(t, m.Lock(t.Context(), nil), nil)
		second := make(chan error)
		go func() { second <- m.Lock(t.Context(), nil) }()
		synctest.Wait()
		is(t, m.Unlock(t.Context(), nil), nil)
		is(t, <-second, nil)
		is(t, m.Unlock(t.Context(), nil), nil)
	})
}
