package drivertest

import (
	"errors"
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/driver"
)

// ErrFault is what the caller of a failed call gets unless the Fault names
// another error. Like any error that is not one of the driver's named ones, it
// says that the outcome is unknown.
var ErrFault = errors.New("drivertest: fault injected")

// Op names a method of a store.
type Op string

// The methods that a FaultStore can disturb.
const (
	Acquire Op = "acquire"
	Renew   Op = "renew"
	Release Op = "release"
	List    Op = "list"
	Sweep   Op = "sweep"
	Watch   Op = "watch"
)

// Call is one call of a store that is about to be made.
type Call struct {
	Op Op
	// N counts the calls of this Op, beginning with 1.
	N int
	// Refs are the holds that the call is about, one for each request. That of
	// an acquire has no token, that of a watch just the resource. A list has one
	// if its filter names a resource; a sweep has none.
	Refs []driver.HoldRef
}

// Fault says what becomes of a call. The zero Fault lets it pass.
type Fault struct {
	// LoseRequest: the request never reaches the store; the caller gets Err.
	LoseRequest bool
	// LoseReply: the request reaches the store; the caller gets Err. A list
	// yields its first hold before that.
	LoseReply bool
	// HoldRequest, if not nil, keeps the request from the store until the
	// channel is closed. The caller waits for the answer or until its ctx ends;
	// together with LoseReply it gets Err at once. The request reaches the store
	// in any case, late as it may be.
	HoldRequest <-chan struct{}
	// Behind keeps the request from the store in the same way, until a later
	// call of that Op about one of the same resources has reached the store, and
	// delivers it before that call returns to its caller.
	Behind Op
	// HoldReply, if not nil, keeps the answer from the caller until the channel
	// is closed or the caller's ctx ends. The store has decided by then.
	HoldReply <-chan struct{}
	// DropLast leaves out that many results at the end of a batch.
	DropLast int
	// Cut, if not nil, ends a watch when it is closed: its channel is closed.
	Cut <-chan struct{}
	// HoldSignals, if not nil, keeps the signals of a watch back until it is
	// closed. Those that came by then are one signal.
	HoldSignals <-chan struct{}
	// Err replaces ErrFault.
	Err error
}

func (f Fault) err() error {
	if f.Err != nil {
		return f.Err
	}
	return ErrFault
}

// RandomFaults decides by the seed alone: about percent of all calls lose their
// request, their reply or a part of their results. A call that must not be
// repeated, because it names no hold ID, passes.
func RandomFaults(seed uint64, percent int) func(Call) Fault {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(c Call) Fault {
		if rnd.IntN(100) >= percent || c.sentOnce() {
			return Fault{}
		}
		switch kind := rnd.IntN(5); {
		case kind < 2:
			return Fault{LoseRequest: true}
		case kind < 4 || len(c.Refs) < 2:
			return Fault{LoseReply: true}
		default:
			return Fault{DropLast: 1 + rnd.IntN(len(c.Refs))}
		}
	}
}

// sentOnce: a request that names no hold must not be sent twice.
func (c Call) sentOnce() bool {
	if c.Op != Renew && c.Op != Release {
		return false
	}
	for _, ref := range c.Refs {
		if ref.HoldID.IsZero() {
			return true
		}
	}
	return false
}
