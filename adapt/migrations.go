package adapt

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast"
)

// Migrations is a lock.Locker of goose, for goose.WithLocker: one process at a time migrates.
// Several Providers may share it. All methods may be called concurrently.
type Migrations struct{ holds }

// NewMigrations returns Migrations that lock the resource.
func NewMigrations(client *holdfast.Client, resource string, o *holdfast.LockOptions) *Migrations {
	return &Migrations{holds{client: client, prefix: resource, lock: o}}
}

// Migrate acquires the lock, calls fn and releases the lock, like Client.Do. In this process
// it first waits until no other fn runs, even if that has lost the lock. fn must pass its ctx
// to Provider.Up or similar methods: the ctx ends when the lock is lost, which is the only
// way to stop goose. The Locker then acquires nothing. Without that ctx, Up would wait for
// Migrate, which waits for Up. Migrate also works for Providers without the Locker, and for
// other tools.
func (m *Migrations) Migrate(ctx context.Context, fn func(ctx context.Context) error) error {
	return doInTurn(ctx, m.client, m.prefix, m.lock, func(bound context.Context) error {
		return fn(context.WithValue(bound, migrating{m}, holdfast.HoldOf(bound)))
	})
}

// migrating is the key of the hold of Migrate in a ctx.
type migrating struct{ m *Migrations }

func (m *Migrations) outer(ctx context.Context) *holdfast.Hold {
	h, _ := ctx.Value(migrating{m}).(*holdfast.Hold)
	return h
}

// Lock acquires the lock for a Provider that is called outside of Migrate. It waits until ctx
// ends or the Client is closed. If the lock is lost, such a Provider continues, because its
// ctx is not that of the lock. Within Migrate, Lock fails only if the lock was lost.
func (m *Migrations) Lock(ctx context.Context, _ *sql.DB) error {
	if h := m.outer(ctx); h != nil {
		return context.Cause(h.Context())
	}
	_, err := m.acquire(ctx, "", true)
	return err
}

// Unlock releases a lock that Lock acquired. If the lock was lost, Unlock returns the
// *holdfast.LostError, which goose returns with its own error.
func (m *Migrations) Unlock(ctx context.Context, _ *sql.DB) error {
	if h := m.outer(ctx); h != nil {
		return context.Cause(h.Context())
	}
	mine, _, err := m.find("unlock", "")
	if err != nil {
		return err
	}
	return m.release(ctx, mine)
}
