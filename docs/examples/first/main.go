// Command first calls a function that runs once at a time, wherever the program is started.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/sqlitelock" // registers sqlite: URLs
)

func main() {
	ctx := context.Background()
	client, err := holdfast.Open(ctx, "sqlite:locks.db", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Do(ctx, "nightly-report", nil, func(ctx context.Context) error {
		// ctx ends if the lock is lost.
		fmt.Println("only one of us runs this")
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}
