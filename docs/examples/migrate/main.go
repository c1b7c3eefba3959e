// Command migrate is a service that migrates its database when it starts. If several
// instances start together, one migrates and the others wait:
//
//	migrate -store postgres://db.example.com/app -database app.db
package main

import (
	"context"
	"database/sql"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/sqlitelock" // registers sqlite: URLs and the driver of the database
)

func main() {
	store := flag.String("store", "sqlite:locks.db", "URL of the store")
	ttl := flag.Duration("ttl", 10*time.Second, "how long a killed process keeps the lock")
	database := flag.String("database", "app.db", "file of the SQLite database")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *store, *database, *ttl)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, store, database string, ttl time.Duration) error {
	client, err := holdfast.Open(ctx, store, &holdfast.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer client.Close()
	db, err := sql.Open("sqlite", database+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()

	migrations := adapt.NewMigrations(client, "migrations", nil)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithLocker(migrations), goose.WithGoMigrations(
		goose.NewGoMigration(1, &goose.GoFunc{RunTx: fill}, nil)))
	if err != nil {
		return err
	}
	err = migrations.Migrate(ctx, func(ctx context.Context) error {
		applied, err := provider.Up(ctx) // ctx ends if the lock is lost
		log.Printf("applied %d migrations", len(applied))
		return err
	})
	if err != nil {
		return err
	}
	log.Print("ready")
	<-ctx.Done() // the service would work here
	return nil
}

// fill is a slow migration.
func fill(ctx context.Context, tx *sql.Tx) error {
	log.Print("migrating")
	if _, err := tx.ExecContext(ctx, "CREATE TABLE numbers (n INTEGER)"); err != nil {
		return err
	}
	for n := range 20 {
		if _, err := tx.ExecContext(ctx, "INSERT INTO numbers VALUES (?)", n); err != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
