package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast"
)

// waits RESOURCE OWNER... waits until those wait for the resource in $STORE, in that order.
func waits(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := holdfast.Open(ctx, ts.Getenv("STORE"), nil)
	ts.Check(err)
	defer client.Close()
	until(ts, fmt.Sprintf("others than %v wait for %s", args[1:], args[0]), func() bool {
		var owners []string
		for p, err := range client.Admin().Waiters(ctx, holdfast.Filter{Resource: args[0]}) {
			ts.Check(err)
			owners = append(owners, p.Owner)
		}
		return slices.Equal(owners, args[1:])
	})
}
