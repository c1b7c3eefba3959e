package pglock_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/pglock"
)

// A pool that the program has already is enough.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store := pglock.New(pool, nil)
	defer store.Close()
	client := holdfast.New(store, nil)
	defer client.Close()
	err = client.Do(ctx, "reports", nil, func(context.Context) error { return nil })
	if err != nil {
		log.Print(err)
	}
}

// A job is marked as begun, and locked, in one transaction: no client sees one
// without the other. The worker renews the lock by its lock ID, and releases it.
func ExampleStore_AcquireTx() {
	var (
		pool  *pgxpool.Pool
		store *pglock.Store // made from it
	)
	ctx := context.Background()
	client := holdfast.New(store, nil)
	var ref driver.HoldRef
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		ref, err = store.AcquireTx(ctx, tx, driver.AcquireRequest{Resource: "job-17", LockID: "worker-3", TTL: time.Minute})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE jobs SET state = 'begun', fence = $1 WHERE id = 17", ref.Token)
		return err
	})
	switch {
	case errors.Is(err, holdfast.ErrHeld):
		return // somebody else does it
	case err != nil:
		log.Print(err)
		return
	}
	// … the job, with client.Admin().RenewID(ctx, "worker-3", time.Minute) before each minute is over …
	if _, err := client.Admin().ReleaseID(ctx, "worker-3"); err != nil {
		log.Print(err)
	}
}
