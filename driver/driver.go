// Package driver is the contract between the Holdfast client and a store of
// locks. Programs that take locks import package holdfast; whoever writes a
// store imports this one.
//
// A Store makes one attempt per call. It does not wait, does not retry what may
// have been applied, and starts no goroutine on behalf of a call: waiting,
// keep-alive and loss belong to the client, once for all stores. What a store
// must hold to is written at each method, and package drivertest checks it.
//
// Durations go to the store, never absolute times: the store's clock decides,
// and nothing a store answers depends on the clock of whoever asks.
package driver

import (
	"context"
	"iter"
	"time"
)

// Store keeps the holds of any number of resources.
//
// All methods may be called concurrently. Requests are valid (see the Validate
// methods): the client checks them before it calls.
//
// An error that is none of the package's named errors means "unknown": the
// request may have been applied, may be applied later, or may never be. The
// caller repeats it with the same hold ID. A store must therefore never turn a
// failure to reach its data into ErrHeld, ErrLost or a silent success. The named
// errors are definite: the request was not applied.
//
// A call returns soon after its ctx has ended; one whose ctx was dead when it
// came sends nothing. Once it has returned, the store does not send its request
// again, nor later for the first time, as a client library may that buffers while
// it is disconnected: the caller may have cleaned up after it.
type Store interface {
	// Acquire grants the resource or answers with a *HeldError.
	//
	// A hold blocks until its end and, unless it was released, for its takeover
	// delay after that. An exclusive request is granted when nothing blocks; a
	// shared one when nothing exclusive blocks, no shared hold blocks that was
	// granted with another limit, and, if it has a limit, fewer shared holds
	// than that block. See AcquireRequest.Limit.
	//
	// A lock ID has at most one hold on a resource. The same lock ID with the
	// same hold ID finds its hold live: that is a repeat, and answers the same
	// grant without moving the end. Finds it past its end: a new acquisition
	// with a new token. Finds another live hold ID of its own, or its own hold
	// already given up by a release with a delay: held, and HeldError.BySelf.
	//
	// A repeat is confirmed as a grant is: where a grant waits for the copies
	// that the store promises (Traits.Failover), the answer to a repeat waits for
	// them too, by a write or a lock that does. The first attempt may have had no
	// answer just because no copy had the hold; who reads it from one server and
	// says "granted" promises what that server's death takes away.
	//
	// A refusal changes nothing that another asker could be woken by. With
	// Traits.Waiters it may leave a note of who waits, see
	// AcquireRequest.Waiting, which is a courtesy: a note that cannot be written
	// is left out, and the answer is the refusal all the same.
	Acquire(ctx context.Context, r AcquireRequest) (Grant, error)

	// Renew extends each hold to now + TTL and never moves an end backwards
	// (RenewRequest.Exact apart). Each request has its own outcome, in order; a
	// result that is missing is unknown. The error of the call as a whole makes
	// every outcome unknown. The order of effects is not defined, and they are
	// not atomic together.
	Renew(ctx context.Context, rs []RenewRequest) ([]RenewResult, error)

	// Release ends each hold, now or after a delay. What is not there has been
	// released: that is no error. Outcomes are those of Renew.
	Release(ctx context.Context, rs []ReleaseRequest) ([]ReleaseResult, error)

	// List yields the holds that match. It is not a snapshot: a hold that is
	// there throughout is yielded at least once. It ends after the first error.
	//
	// What the loop's body does is the user's code, which may take long or call the
	// store: while it runs the store keeps nothing that others wait for, no lock, no
	// connection and no transaction, but has read a bounded page before it yields.
	List(ctx context.Context, f Filter) iter.Seq2[Status, error]

	// Sweep drops holds that no longer block and deletes the records of
	// resources that have had no hold for SweepRequest.Idle, provided that their
	// last token lies as far behind the store's clock: else a token could come
	// twice. It never touches a live hold nor one in its takeover delay. What it
	// costs depends on what is due, not on what is there.
	Sweep(ctx context.Context, q SweepRequest) (SweepResult, error)

	// Traits says what the store promises. It is constant and sends nothing.
	Traits() Traits

	// Close frees what the store holds of the process: connections, files,
	// goroutines. It releases no lock.
	Close() error
}

// Watcher is a Store that can tell when asking again is worth while.
type Watcher interface {
	// Watch subscribes to the resource until ctx ends, and returns only when the
	// subscription is effective: a release that is applied after Watch returned
	// is signalled. So are forced releases and the sweep of a hold. Refusals and
	// renewals are not. Signals coalesce; each reconnect of the store's stream
	// gives one, unless the stream goes on where it was cut. A closed channel means
	// "poll from now on". The Client ends the ctx after 2 s without an answer.
	//
	// ErrUnsupported means that this store cannot watch, as configured.
	Watch(ctx context.Context, resource string) (<-chan struct{}, error)
}

// Initializer is a Store that has something to prepare or to check before its
// first use: a schema, an index, the server's settings.
type Initializer interface {
	// Init may be called again; it is cheap when all is in place. The Client gives
	// it 10 s, and calls it again if that was too short: what it has done by then
	// must not be in the way of the next call. A store that cannot be used as it is
	// answers with an error that wraps ErrUnusable and says how to mend it.
	Init(ctx context.Context) error
}

// Reach says how far apart two clients may be and still exclude one another.
type Reach string

// How far a store reaches.
const (
	Process Reach = "process"
	Host    Reach = "host"
	Network Reach = "network"
)

// Fencing says what the tokens of a store promise.
type Fencing string

// What tokens promise. They protect what exclusive holds write.
const (
	// FencingStrict: strictly rising, whatever happens to the record.
	FencingStrict Fencing = "strict"
	// FencingClock: a release deletes the record, so that tokens rise only
	// across gaps larger than the resolution of the store's clock.
	FencingClock Fencing = "clock"
	// FencingNone: no tokens.
	FencingNone Fencing = "none"
)

// Failover says what is left of holds when a copy of the store takes over.
type Failover string

// What a fail-over leaves.
const (
	// FailoverNone: there are no copies.
	FailoverNone Failover = ""
	// FailoverKeeps: what was granted is there, for it was on enough copies before
	// the grant was told.
	FailoverKeeps Failover = "keeps"
	// FailoverMayLose: copies follow when they can. What the new one had not yet got
	// is lost, so that two can hold one lock, and tokens rise as far as the clocks
	// of the servers agree.
	FailoverMayLose Failover = "may lose"
)

// Traits are what a store promises, for people to choose by and for the
// conformance suite to check.
type Traits struct {
	// Name of the kind of store, such as "sqlite".
	Name string
	// Reach says who can share the store.
	Reach Reach
	// ServerClock: one clock, that of the store, decides for all clients.
	ServerClock bool
	// Notifies: the store is a Watcher and Watch works.
	Notifies bool
	// Waiters: the store notes that somebody waits, and Status.Waited says when.
	Waiters bool
	// Durable: what a call has answered for, holds, their ends and tokens, is there
	// after the store's process and machine have crashed or lost power, and started
	// again with their disks.
	Durable bool
	// Shared: shared holds and limits are supported. A store without them
	// answers ErrUnsupported to a shared request.
	Shared bool
	// Sweeps: what is expired or idle stays until a Sweep drops it, so that
	// clients sweep by themselves. false: the store does so itself.
	Sweeps bool
	// Fencing says what tokens promise.
	Fencing Fencing
	// Failover says what is left of holds when a copy of the store takes over.
	Failover Failover
}

// SweepRequest asks for what is no longer needed to be removed.
type SweepRequest struct {
	// Idle is for how long a resource must have had no hold for its record to be
	// deleted.
	Idle time.Duration
	// Most bounds how many records the call changes or deletes, so that it takes
	// a short time. 0: no bound.
	Most int
}

// SweepResult counts what a Sweep removed.
type SweepResult struct {
	Holds   int // expired holds dropped
	Records int // idle records deleted
	// More says that the call stopped at SweepRequest.Most: more may be due.
	More bool
}
