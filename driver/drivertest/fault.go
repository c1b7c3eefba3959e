package drivertest

import (
	"errors"
	"math/rand/v2"

	"github.com/holdfast-go/holdfast/driver"
)

// ErrFault is the error of a failed call unless the Fault has another one. Like any error
// that is not a named error of package driver it means that the outcome is unknown.
var ErrFault = errors.New("drivertest: fault injected")

// Op is a method of a store.
type Op string

// The values of Op, the methods that a FaultStore can disturb.
const (
	Acquire Op = "acquire"
	Renew   Op = "renew"
	Release Op = "release"
	List    Op = "list"
	Sweep   Op = "sweep"
	Watch   Op = "watch"
)

// Call is a call of the store that is about to be made.
type Call struct {
	Op Op
	// N is the number of the call among the calls of this Op, beginning with 1.
	N int
	// Refs has the holds that the call is about, one for each request. The ref of an acquire
	// has no token, and the ref of a watch has only the resource. A list has one ref if its
	// filter has a resource, and a sweep has none.
	Refs []driver.HoldRef
}

// Fault says what happens to a call. The zero Fault lets it pass.
type Fault struct {
	// LoseRequest keeps the request from the store forever. The caller gets Err.
	LoseRequest bool
	// LoseReply lets the request reach the store, but the caller gets Err. A list yields its
	// first hold before the error.
	LoseReply bool
	// HoldRequest, if not nil, keeps the request from the store until the channel is closed.
	// The caller waits for the answer or until its ctx ends; with LoseReply it gets Err at
	// once. In any case the request finally reaches the store.
	HoldRequest <-chan struct{}
	// Behind keeps the request from the store in the same way until a later call of the given
	// Op about one of the same resources has reached the store. The request is delivered
	// before that call returns to its caller.
	Behind Op
	// HoldReply, if not nil, keeps the answer from the caller until the channel is closed or
	// the caller's ctx ends. The store has decided by then.
	HoldReply <-chan struct{}
	// DropLast leaves out that many results at the end of a batch.
	DropLast int
	// Cut, if not nil, closes the channel of a watch when it is closed.
	Cut <-chan struct{}
	// HoldSignals, if not nil, holds back the signals of a watch until it is closed. They
	// coalesce.
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

// RandomFaults returns a function that disturbs about percent of all calls, as determined by
// the seed: it loses their request, their reply or some of their results. It lets calls pass
// that must not be repeated because they have no hold ID.
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

// sentOnce reports whether the call must not be sent twice because a request has no hold ID.
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
