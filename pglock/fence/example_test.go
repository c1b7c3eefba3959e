package fence_test

import (
	"context"
	"errors"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pglock/fence"
)

// An account is settled by one program at a time. Should one of them be stopped
// for longer than its lock lives, what it sends later is refused.
func Example() {
	var (
		client *holdfast.Client
		pool   *pgxpool.Pool
	)
	settle := func(ctx context.Context) error {
		hold, err := client.Lock(ctx, "account-17", nil)
		if err != nil {
			return err
		}
		defer func() {
			if err := hold.Unlock(ctx); err != nil {
				log.Print(err)
			}
		}()
		ctx = hold.Context() // ends when the lock is lost

		// Before it is read: what others send late does not count any more.
		account := fence.Row{DB: pool, Table: pgx.Identifier{"accounts"}, Key: map[string]any{"id": 17}}
		if err := account.Claim(ctx, hold.Token()); err != nil {
			return err
		}
		var balance, due int64
		if err := pool.QueryRow(ctx, "SELECT balance, due FROM accounts WHERE id = 17").Scan(&balance, &due); err != nil {
			return err
		}
		return account.Update(ctx, map[string]any{"balance": balance - due, "due": 0}, hold.Token())
	}
	if err := settle(context.Background()); errors.Is(err, holdfast.ErrStale) {
		log.Print("somebody else settles this account by now")
	}
}

// What one statement cannot say is done by several, after a claim in the same
// transaction.
func ExampleRow_Claim() {
	var (
		pool *pgxpool.Pool
		hold *holdfast.Hold
	)
	ctx := hold.Context()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		account := fence.Row{DB: tx, Table: pgx.Identifier{"accounts"}, Key: map[string]any{"id": 17}}
		if err := account.Claim(ctx, hold.Token()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - due, due = 0 WHERE id = 17"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO journal (account, what) VALUES (17, 'settled')")
		return err
	})
	if errors.Is(err, holdfast.ErrStale) {
		log.Print("somebody else has the lock by now")
	}
}
