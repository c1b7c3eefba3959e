// Package driver is the contract between the Holdfast client and a store of locks.
// Programs that take locks import package holdfast; stores import this one.
//
// A Store makes one attempt per call. It does not wait, does not retry what may have
// been applied, and does nothing for a call that has returned but read its answer:
// waiting, keep-alive and loss belong to the client, once for all stores. The rules
// for stores are at each method, and package drivertest checks them.
//
// Durations go to the store, never absolute times: the store's clock decides, and no
// answer of a store depends on the clock of its caller.
//
// Likewise, programs show ages, not dates. The clocks of a store and of its caller may
// differ, so the caller never subtracts one from the other. A store that returns times of
// its clock also returns what that clock was (Status.Seen, Place.Seen), in the same
// round trip, and Status.Age and its like are differences on that one clock.
//
// # Terms
//
// These terms mean the same in all code, messages and documents:
//
//   - A resource is the name of what a lock protects: 1 to 1024 bytes of UTF-8 without NUL.
//   - A lock ID is the name under which a client locks one or several resources: by it,
//     all these holds can be renewed or released together. The caller chooses it, or it is
//     random. It prevents mistakes and is not a secret.
//   - A hold is one acquisition of one resource by one lock ID. A lock ID has at most one
//     hold on a resource.
//   - A hold ID is 12 random bytes that name one acquisition. The Client makes it before
//     the first request, so every request about the hold can be repeated.
//   - The mode of a hold is exclusive or shared. A limit is the largest number of shared
//     holds on a resource; without one there may be any number.
//   - The TTL is how long a hold lives unless it is renewed. It lives until its end on the
//     store's clock. Then it has expired, even if no sweep has dropped it yet. A hold
//     whose TTL is Forever has no end.
//   - The takeover delay is how long a hold goes on blocking after its end, unless it was
//     released. The hold cannot be renewed in that time.
//   - A hold blocks, or is in the way, while it can exclude another hold: until its end
//     and its takeover delay are over.
//   - A token, or fencing token, is a number that rises with every grant of a resource, in
//     all modes, as far as Traits.Fencing promises. The data that a lock protects can
//     refuse the writes of stale holders by it.
//   - The details of a hold are owner, host and comment. No decision depends on them.
//   - A record is what a store keeps for a resource: its holds and its last token. It is
//     idle if it has no holds.
//   - An acquirer requests a hold. A waiter is an acquirer that waits until it is granted
//     the hold or gives up. A holder has a hold.
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
// Any other error than the package's named ones means that the outcome is unknown: the
// request may have been applied, may be applied later, or may never be. The
// caller repeats it with the same hold ID. A store must therefore never turn a
// failure to reach its data into ErrHeld, ErrLost or a silent success. The named
// errors are definite: the request was not applied.
//
// A call returns soon after its ctx has ended, and sends nothing if its ctx had ended
// before. After it has returned, the store does not send its request again, nor for
// the first time, as client libraries do that buffer while they are disconnected: the
// caller may have cleaned up after it.
type Store interface {
	// Acquire grants the resource or answers with a *HeldError.
	//
	// A hold blocks until its end and, unless it was released, for its takeover
	// delay after that. An exclusive request is granted when nothing blocks; a
	// shared one when nothing exclusive blocks, no shared hold blocks that was
	// granted with another limit, and, if it has a limit, fewer shared holds
	// than that block. See AcquireRequest.Limit.
	//
	// A lock ID has at most one hold on a resource. If the same lock ID with the same
	// hold ID has a live hold, the request is a repeat: Acquire returns the same
	// grant without moving the end. If that hold is past its end, the request is a
	// new acquisition with a new token. If the lock ID has a live hold with another
	// hold ID, or has released its hold with a delay, the resource is held, and
	// HeldError.BySelf is set.
	//
	// A repeat is confirmed as a grant is: if a grant waits for the copies that the
	// store promises (Traits.Failover), the answer to a repeat waits for them too, by
	// a write or a lock that does. The first attempt may have had no answer just
	// because no copy had the hold. A hold that is on one server only is lost with
	// that server.
	//
	// Places ahead count as if their waiters held the resource already; see
	// AcquireRequest.Place. A grant takes the acquirer's own place out of the queue.
	//
	// A refusal changes nothing that could wake another acquirer. With Traits.Queue it
	// gives the acquirer its place, or keeps it, unless the acquirer's own hold refuses
	// it (BySelf) or the queue is full. That is a courtesy: if it cannot be written, the
	// answer is the same refusal, without a place. It waits for no copies of the data.
	Acquire(ctx context.Context, r AcquireRequest) (Grant, error)

	// Renew extends each hold to now + TTL and never moves an end backwards. Each
	// request has its own outcome, in order; a result that is missing is unknown. The
	// error of the call as a whole makes every outcome unknown. The order of effects is
	// not defined, and they are not atomic together.
	Renew(ctx context.Context, rs []RenewRequest) ([]RenewResult, error)

	// Release ends each hold, now or after a delay. A hold that is not there has been
	// released, which is no error. Outcomes are as for Renew.
	Release(ctx context.Context, rs []ReleaseRequest) ([]ReleaseResult, error)

	// List yields the holds that match. It is not a snapshot: a hold that is
	// there throughout is yielded at least once. It ends after the first error.
	//
	// The body of the loop is the user's code, which may take long or call the store.
	// While it runs, the store keeps nothing that other callers wait for: no lock, no
	// connection and no transaction. It reads a bounded page before it yields.
	List(ctx context.Context, f Filter) iter.Seq2[Status, error]

	// Sweep drops holds that no longer block and deletes the records of resources
	// that have had no hold for SweepRequest.Idle, provided that their last token
	// lies as far behind the store's clock: otherwise a token could come twice. It
	// never touches a live hold nor one in its takeover delay. Its cost depends on
	// how many are due, not on how many there are.
	Sweep(ctx context.Context, q SweepRequest) (SweepResult, error)

	// Traits says what the store promises. It is constant and sends nothing.
	Traits() Traits

	// Close frees the connections, files and goroutines of the store. It releases no
	// lock.
	Close() error
}

// Watcher is a Store that signals when another attempt may succeed.
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

// LossWatcher is a Store whose server can lose what it has confirmed, for example if it
// starts again without its data, and that notices when this may have happened.
type LossWatcher interface {
	// WatchLoss returns when the store begins to notice. Until ctx ends, a signal says
	// that the server may have lost holds since then or since the last signal, as after
	// each reconnect. Signals coalesce. A closed channel means that no signal follows.
	//
	// The Client calls it while it has holds, and renews all of them when it returns and
	// after each signal. It calls it again after an error, unless that is ErrUnsupported:
	// then this store cannot notice, as configured.
	WatchLoss(ctx context.Context) (<-chan struct{}, error)
}

// Queue is a Store that keeps a queue of waiters (Traits.Queue).
type Queue interface {
	// Waiters yields the live places of the resources and waiters that the filter
	// chooses, the places of one resource in order. Otherwise it is like List.
	Waiters(ctx context.Context, f Filter) iter.Seq2[Place, error]
}

// Waiters yields what the store's own Waiters does. The error is ErrUnsupported if the
// store keeps no queue.
func Waiters(ctx context.Context, s Store, f Filter) iter.Seq2[Place, error] {
	if q, ok := s.(Queue); ok && s.Traits().Queue {
		return q.Waiters(ctx, f)
	}
	return func(yield func(Place, error) bool) { yield(Place{}, ErrUnsupported) }
}

// Initializer is a Store that has something to prepare or to check before its
// first use: a schema, an index, the server's settings.
type Initializer interface {
	// Init may be called again; it is cheap when all is in place. The Client gives it
	// 10 s, and calls it again if that was too short: an Init that was cut off must
	// not be in the way of the next one. If the store cannot be used as it is, the
	// error wraps ErrUnusable and says how to fix it.
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
	// FailoverKeeps: what was granted is there, because it was on enough copies
	// before the store returned the grant.
	FailoverKeeps Failover = "keeps"
	// FailoverMayLose: replication is asynchronous. What the new primary did not have
	// yet is lost, so two clients can hold one lock, and tokens rise as far as the
	// clocks of the servers agree.
	FailoverMayLose Failover = "may lose"
)

// Traits are what a store promises. People choose a store by them, and the
// conformance suite checks them.
type Traits struct {
	// Name of the kind of store, such as "sqlite".
	Name string
	// Reach says who can share the store.
	Reach Reach
	// ServerClock: one clock, that of the store, decides for all clients.
	ServerClock bool
	// Notifies: the store is a Watcher and Watch works.
	Notifies bool
	// Queue: the store keeps a queue of waiters, see AcquireRequest.Place.
	Queue bool
	// Durable: what a call has confirmed, holds, their ends and tokens, is there
	// after the store's process and machine have crashed or lost power, and started
	// again with their disks.
	Durable bool
	// Shared: shared holds and limits are supported. Other stores return
	// ErrUnsupported for a shared request.
	Shared bool
	// Sweeps: expired holds and idle records stay until a Sweep drops them, so
	// clients sweep by themselves. false: the store drops them itself.
	Sweeps bool
	// Fencing says what tokens promise.
	Fencing Fencing
	// Failover says what is left of holds when a copy of the store takes over.
	Failover Failover
}

// SweepResource is the resource that a Client holds in its store from one background sweep
// to the next.
const SweepResource = "holdfast/sweep"

// SweepRequest bounds a Sweep.
type SweepRequest struct {
	// Idle is for how long a resource must have had no hold for its record to be
	// deleted. Where others use the store, it should be a minute at least: a store may take
	// the time of an acquire before that waits for its turn, and a record that was deleted
	// meanwhile would begin again with a lower token.
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
