// Package driver is the contract between the Holdfast Client and a store of locks. Programs
// that take locks import package holdfast. Stores import this package, and so do tools for
// operators: it documents the fields and methods of Status, Place, Filter, Traits and
// HeldError, and has some names that package holdfast does not have, such as SweepResult,
// ParseHoldID, Unknown and NoPlace.
//
// A Store makes one attempt per call. It does not wait, does not repeat a request that may
// have been applied, and does nothing after a call has returned, except read its answer. The
// Client waits, renews holds and handles losses, for all stores alike. The rules for a store
// are at each method; package drivertest checks them.
//
// Requests have durations, never absolute times: the store's clock decides, and no answer of
// a store depends on the clock of its caller.
//
// Programs show ages, not dates. The clocks of a store and of its caller may differ, so a
// caller never subtracts one from the other. A store that returns times of its clock also
// returns the time of its clock at that moment (Status.Seen, Place.Seen), in the same round
// trip. Methods such as Status.Age return differences on that clock.
//
// # Terms
//
// These terms mean the same in all code, messages and documents:
//
//   - A resource is the name of what a lock protects: 1 to 1024 bytes of UTF-8 without NUL.
//   - A lock ID is the name under which a client locks one or several resources. All holds
//     of a lock ID can be renewed or released together. The caller chooses it, or it is
//     random. It prevents mistakes and is not a secret.
//   - A hold is one acquisition of one resource by one lock ID. A lock ID has at most one
//     hold on a resource.
//   - A hold ID is 12 random bytes that identify one acquisition. The Client makes it before
//     the first request, so every request about the hold can be repeated.
//   - The mode of a hold is exclusive or shared. A limit is the largest number of shared
//     holds of a resource; without a limit there may be any number.
//   - The TTL is how long a hold lives unless it is renewed: until its end by the store's
//     clock. Then it has expired, even if no sweep has dropped it yet. A hold whose TTL is
//     Forever has no end.
//   - The takeover delay is how long a hold goes on blocking after its end, unless it was
//     released. The hold cannot be renewed in that time.
//   - A hold blocks, or is in the way, while it can exclude another hold: until its end
//     and its takeover delay are over.
//   - A token, or fencing token, is a number that rises with every grant of a resource, in
//     all modes, as far as Traits.Fencing promises. The data that a lock protects can
//     use it to refuse the writes of stale holders.
//   - The details of a hold are owner, host and comment. No decision depends on them.
//   - A record is what a store keeps for a resource: its holds and its last token. It is
//     idle if it has no holds.
//   - An acquirer requests a hold. A waiter is an acquirer that waits until it is granted
//     the hold or gives up. A holder has a hold.
package driver

import (
	"context"
	"iter"
	"strings"
	"time"
)

// Store keeps the holds of any number of resources.
//
// All methods may be called concurrently. Requests are valid: the Client calls their Validate
// methods first.
//
// The named errors of this package are definite: the request was not applied. Any other error
// means that the outcome is unknown: the request may have been applied, may be applied later,
// or may never be. The caller repeats it with the same hold ID. So a store must never turn a
// failure to reach its data into ErrHeld, ErrLost or a silent success.
//
// A call returns soon after its ctx has ended, and sends nothing if its ctx had ended before.
// After a call has returned, the store does not send its request, neither again nor for the
// first time, as client libraries do that buffer requests while they are disconnected: the
// caller may have cleaned up in the meantime.
type Store interface {
	// Acquire grants the resource or returns a *HeldError.
	//
	// A hold blocks until its end and, unless it was released, for its takeover delay after
	// that. An exclusive request is granted if nothing blocks. A shared request is granted if
	// no exclusive hold blocks, no shared hold with another limit blocks and, if the request
	// has a limit, fewer shared holds than the limit block. See AcquireRequest.Limit.
	//
	// A lock ID has at most one hold of a resource. If the same lock ID has a live hold with
	// the same hold ID, the request is a repeat: Acquire returns the same grant without
	// moving the end. If that hold has expired, the request is a new acquisition with a new
	// token. If the lock ID has a live hold with another hold ID, or has released its hold
	// with a delay, the resource is held, and HeldError.BySelf is set.
	//
	// A repeat is confirmed in the same way as a grant: if a grant waits for the copies that
	// the store promises (Traits.Failover), the answer to a repeat waits for them too, by a
	// write or by a lock that does. The first attempt may have had no answer because no copy
	// had the hold, and a hold on one server only is lost with that server.
	//
	// Waiters ahead count as if they held the resource already: see AcquireRequest.Place. A
	// grant takes the acquirer's own place out of the queue.
	//
	// A refusal changes nothing that could wake another acquirer. With Traits.Queue it gives
	// the acquirer its place, or keeps it, unless the acquirer's own hold is in the way
	// (BySelf) or the queue is full. If the place cannot be written, the answer is the same
	// refusal without a place. The place need not wait for copies of the data.
	Acquire(ctx context.Context, r AcquireRequest) (Grant, error)

	// Renew extends each hold to now + TTL. It never moves an end backwards. Each request has
	// its own outcome, in order; a missing result means unknown. An error of the whole call
	// makes every outcome unknown. The requests take effect in any order, and not atomically.
	Renew(ctx context.Context, rs []RenewRequest) ([]RenewResult, error)

	// Release ends each hold, now or after a delay. It is no error if a hold is not there: it
	// has been released. Outcomes are as for Renew.
	Release(ctx context.Context, rs []ReleaseRequest) ([]ReleaseResult, error)

	// List returns an iterator over the holds that match the filter. It is not a snapshot: a
	// hold that exists throughout is yielded at least once. The iteration ends after the
	// first error.
	//
	// The body of the loop is user code, which may take long or call the store. While it
	// runs, the store keeps nothing that other callers wait for: no lock, no connection and
	// no transaction. It reads a page of limited size before it yields.
	List(ctx context.Context, f Filter) iter.Seq2[Status, error]

	// Sweep drops holds that no longer block. It deletes the records of resources that have
	// had no hold for SweepRequest.Idle, provided that their last token is as far behind the
	// store's clock: otherwise a token could repeat. It never touches a live hold or a hold
	// in its takeover delay. Its cost depends on the number of due records, not on the number
	// of all records.
	Sweep(ctx context.Context, q SweepRequest) (SweepResult, error)

	// Traits returns the promises of the store. They are constant, and Traits sends nothing.
	Traits() Traits

	// Close frees the connections, files and goroutines of the store. It releases no lock.
	Close() error
}

// Watcher is a Store that signals when another attempt may succeed.
type Watcher interface {
	// Watch subscribes to the resource until ctx ends. It returns only when the subscription
	// has begun: a release that is applied after Watch has returned gives a signal, and so do
	// forced releases and the sweep of a hold. Refusals and renewals give none. Signals
	// coalesce. Each reconnect of the store's stream gives a signal, unless the stream
	// continues where it broke. A closed channel means: poll from now on. The Client ends the
	// ctx after 2 s without an answer.
	//
	// The error is ErrUnsupported if this store, as configured, cannot watch.
	Watch(ctx context.Context, resource string) (<-chan struct{}, error)
}

// LossWatcher is a Store whose server can lose data that it has confirmed, for example by a
// restart without its data, and that notices when this may have happened.
type LossWatcher interface {
	// WatchLoss returns when the store has begun to notice losses. Until ctx ends, a signal
	// says that the server may have lost holds since then or since the last signal, as after
	// each reconnect. Signals coalesce. A closed channel means that no further signal comes.
	//
	// The Client calls WatchLoss while it has holds. It renews all of them when WatchLoss
	// returns and after each signal. After an error it calls WatchLoss again, unless the
	// error is ErrUnsupported: this store, as configured, cannot notice losses.
	WatchLoss(ctx context.Context) (<-chan struct{}, error)
}

// Queue is a Store that keeps a queue of waiters (Traits.Queue).
type Queue interface {
	// Waiters returns an iterator over the live places that match the filter, the places of
	// one resource in order. Otherwise it is like List.
	Waiters(ctx context.Context, f Filter) iter.Seq2[Place, error]
}

// Waiters calls the store's Waiters method. The error is ErrUnsupported if the store keeps no
// queue.
func Waiters(ctx context.Context, s Store, f Filter) iter.Seq2[Place, error] {
	if q, ok := s.(Queue); ok && s.Traits().Queue {
		return q.Waiters(ctx, f)
	}
	return func(yield func(Place, error) bool) { yield(Place{}, ErrUnsupported) }
}

// Initializer is a Store that has something to prepare or to check before its first use, such
// as a schema, an index or the server's settings.
type Initializer interface {
	// Init may be called again, and is cheap if everything is in place. The Client gives it
	// 10 s, and calls it again if that was too short: an interrupted Init must not block the
	// next one. If the store cannot be used as it is, the error wraps ErrUnusable and says
	// how to fix it.
	Init(ctx context.Context) error
}

// Reach says how far apart two clients of a store may be and still exclude each other.
type Reach string

// The values of Reach.
const (
	Process Reach = "process"
	Host    Reach = "host"
	Network Reach = "network"
)

// Fencing says what the tokens of a store promise.
type Fencing string

// The values of Fencing. Tokens protect the writes of exclusive holders.
const (
	// FencingStrict: tokens strictly rise, whatever happens to the record.
	FencingStrict Fencing = "strict"
	// FencingClock: a release deletes the record, so tokens rise only across gaps larger than
	// the resolution of the store's clock.
	FencingClock Fencing = "clock"
	// FencingNone: there are no tokens.
	FencingNone Fencing = "none"
)

// Failover says what is left of holds after a copy of the store has taken over.
type Failover string

// The values of Failover.
const (
	// FailoverNone: there are no copies.
	FailoverNone Failover = ""
	// FailoverKeeps: granted holds are kept, because they were on enough copies before the
	// store returned the grant.
	FailoverKeeps Failover = "keeps"
	// FailoverMayLose: replication is asynchronous. Data that the new primary did not have
	// yet is lost, so two clients can hold one lock, and tokens rise only as far as the
	// clocks of the servers agree.
	FailoverMayLose Failover = "may lose"
)

// Traits are the promises of a store. People choose a store by them, and package drivertest
// checks them.
type Traits struct {
	// Name is the kind of the store, such as "sqlite".
	Name string
	// Reach says which clients can share the store.
	Reach Reach
	// ServerClock means that one clock, the store's, decides for all clients.
	ServerClock bool
	// Notifies means that the store is a Watcher and Watch works.
	Notifies bool
	// Queue means that the store keeps a queue of waiters: see AcquireRequest.Place.
	Queue bool
	// Durable means that confirmed holds, ends and tokens are kept when the process and the
	// machine of the store crash or lose power and start again with their disks.
	Durable bool
	// Shared means that shared holds and limits are supported. Other stores return
	// ErrUnsupported for a shared request.
	Shared bool
	// Sweeps means that expired holds and idle records stay until a Sweep drops them, so
	// clients sweep in the background. If it is false, the store drops them by itself.
	Sweeps bool
	// Fencing says what the tokens promise.
	Fencing Fencing
	// Failover says what is left of holds after a copy of the store has taken over.
	Failover Failover
}

// SweepResource is the resource that a Client holds in its store from one background sweep to
// the next.
const SweepResource = InternalPrefix + "sweep"

// InternalPrefix begins the names of the resources that Holdfast itself locks. Use no such name for a
// lock of yours: commands that list holds leave them out, and histories do not keep them.
const InternalPrefix = "holdfast/"

// Internal reports whether Holdfast itself locks the resource: whether its name begins with InternalPrefix.
func Internal(resource string) bool { return strings.HasPrefix(resource, InternalPrefix) }

// SweepRequest limits a Sweep.
type SweepRequest struct {
	// Idle is how long a resource must have had no hold for its record to be deleted. If
	// others use the store, it should be at least a minute: a store may read the time of an
	// acquire before the acquire waits for its turn, and if the record were deleted in
	// between, its tokens would begin again too low.
	Idle time.Duration
	// Most limits how many records the call changes or deletes, so that it takes a short
	// time. 0 means no limit.
	Most int
}

// SweepResult has the numbers of what a Sweep removed.
type SweepResult struct {
	Holds   int // expired holds dropped
	Records int // idle records deleted
	// More says that the call stopped at SweepRequest.Most, and more records may be due.
	More bool
}
