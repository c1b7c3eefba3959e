package pglock

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// pool is where connections come from. There are two: dialed, which the store makes of
// a URL, and pgxPool, which is the caller's. A program that only opens URLs does not
// link pgx with its types, 4 MB: nothing but New and AcquireTx may refer to it.
type pool interface {
	// acquire returns a connection that no other caller uses until its release.
	acquire(ctx context.Context) (conn, error)
	// own returns the store's own pool, which connects as this one does: see ownConns.
	// It dials nothing yet.
	own() (pool, error)
	// close returns when all connections are released and closed.
	close()
}

// conn is a connection of a pool.
type conn interface {
	// query sends the statement, and adds each row of the answer to into. With prepare,
	// the statement is prepared at its first use on the connection: this takes a round
	// trip of its own, and all else one.
	query(ctx context.Context, sql string, prepare bool, args []any, into answer) error
	raw() *pgconn.PgConn
	// release returns the connection to its pool, which closes it if it is broken or
	// within a transaction.
	release()
	// hijack takes the connection out of its pool. It is then not released but closed.
	hijack()
}

// run executes SQL that has neither arguments nor an answer.
func run(ctx context.Context, on conn, sql string) error {
	_, err := on.raw().Exec(ctx, sql).ReadAll()
	return err
}

// ping returns an error if the connection does not answer within the time.
func ping(ctx context.Context, on *pgconn.PgConn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return on.Ping(ctx)
}

// hangUp closes the connection, and waits for pingTimeout at most.
func hangUp(on conn) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	_ = on.raw().Close(ctx)
}

// heardKey is where a connection's custom data has its notifications.
const heardKey = "holdfast: notifications"

// hear keeps a notification until it is asked for. It is the OnNotification of
// connections of the store's own pool: notifications also arrive with answers.
func hear(on *pgconn.PgConn, n *pgconn.Notification) {
	heard, _ := on.CustomData()[heardKey].([]*pgconn.Notification)
	on.CustomData()[heardKey] = append(heard, n)
}

// nextNotification waits for a notification until ctx ends, after which the connection
// can still be used.
func nextNotification(ctx context.Context, on *pgconn.PgConn) (*pgconn.Notification, error) {
	for {
		if heard, _ := on.CustomData()[heardKey].([]*pgconn.Notification); len(heard) > 0 {
			on.CustomData()[heardKey] = heard[1:]
			return heard[0], nil
		}
		if err := on.WaitForNotification(ctx); err != nil {
			return nil, err
		}
	}
}
