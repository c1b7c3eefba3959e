// Package register has the data that the locks of a fault campaign protect: one value
// for each resource, in the store's own database or behind HTTP. What is written comes
// with a fencing token, and lower ones than were seen are refused, unless fencing is
// switched off to show what happens then.
package register

import (
	"context"
	"errors"
	"fmt"
)

// Address is where a register is.
type Address struct {
	Kind string // one of the names in kinds
	URL  string
}

// Register is a client of one.
type Register interface {
	// Write sets the value of a resource. If fenced, it returns ErrStale for a token
	// lower than one that was seen. Any other error leaves open whether it was done.
	Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error
	// Close frees the connections.
	Close() error
}

// ErrStale says that a write was refused.
var ErrStale = errors.New("a higher token has been seen")

var kinds = map[string]func(url string) (Register, error){
	"http":     openHTTP,
	"mongodb":  openMongo,
	"postgres": openPostgres,
	"redis":    openRedis,
	"search":   openSearch,
	"sqlite":   openSQLite,
}

// Named is a register and its address.
type Named struct {
	Address
	Register
}

// Open makes clients of all of them.
func Open(all []Address) (opened []Named, err error) {
	for _, a := range all {
		open := kinds[a.Kind]
		if open == nil {
			return nil, errors.Join(fmt.Errorf("register of kind %q", a.Kind), Close(opened))
		}
		r, err := open(a.URL)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("register %s: %w", a.Kind, err), Close(opened))
		}
		opened = append(opened, Named{a, r})
	}
	return opened, nil
}

// Close closes all of them.
func Close(all []Named) (err error) {
	for _, r := range all {
		err = errors.Join(err, r.Close())
	}
	return err
}
