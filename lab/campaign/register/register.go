// Package register stores the data that the locks of a fault campaign protect: one value for
// each resource, in the store's own database or behind HTTP. Each write carries a fencing
// token. A register refuses a token lower than one that it has seen, unless fencing is switched
// off to show what happens without it.
package register

import (
	"context"
	"errors"
	"fmt"
)

// Address is the address of a register.
type Address struct {
	Kind string // a key of kinds
	URL  string
}

// Register is a client of a register.
type Register interface {
	// Write sets the value of a resource. If fenced, it returns ErrStale for a token lower than
	// one that the register has seen. With any other error the outcome is unknown.
	Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error
	// Close closes the connections.
	Close() error
}

// ErrStale means that the register refused a write.
var ErrStale = errors.New("a higher token has been seen")

var kinds = map[string]func(url string) (Register, error){
	"http":     openHTTP,
	"mongodb":  openMongo,
	"postgres": openPostgres,
	"redis":    openRedis,
	"search":   openSearch,
	"sqlite":   openSQLite,
}

// Named is an open register with its address.
type Named struct {
	Address
	Register
}

// Open opens clients of all registers.
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
