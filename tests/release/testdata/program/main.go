// A program that takes a lock in a SQLite file.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

func main() {
	ctx := context.Background()
	client, err := holdfast.Open(ctx, "sqlite:locks.db", nil)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := client.Lock(ctx, "nightly-report", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held with token", hold.Token())
	if err := hold.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
}
