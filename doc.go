// Package holdfast provides distributed locks, exclusive and shared, on a database that
// a team already runs. The Client renews a lock while it is held, and each lock has a
// context that ends before the store can grant the resource to another client.
//
//	client, err := holdfast.Open(ctx, "sqlite:/var/lib/app/locks.db", nil)
//	...
//	err = client.Do(ctx, "nightly-report", nil, func(ctx context.Context) error {
//		return report(ctx) // ctx ends if the lock is lost
//	})
//
// [Client.Do] runs a function under a lock. [Client.Lock] and [Client.TryLock] return a
// [Hold], which the caller unlocks. [Client.RLock] takes a shared lock or, with
// LockOptions.Limit, a permit of a semaphore.
//
// [Open] takes the URL of a store. A program imports the packages of its stores, which
// register their URL schemes:
//
//	package        URL schemes
//	sqlitelock     sqlite
//	pglock         postgres, postgresql
//	redislock      redis, rediss
//	mongolock      mongodb, mongodb+srv
//	eslock/esurl   elasticsearch, opensearch, elasticsearch+https, opensearch+https
//	httplock       https, http, unix
//	memlock        memory
//
// A program that has a connection to its database already passes it to the New function of
// the store's package, such as pglock.New, and the store to [New].
//
// # Guarantees
//
//  1. Mutual exclusion by the store's clock: a resource never has two live exclusive
//     holds, never an exclusive and a shared one at once, and never more shared holds
//     than their limit, which is the same for all of them.
//  2. The holder learns of a loss first: the context of a Hold ends, with the reason as
//     its cause, before the store can grant the resource to another client, whatever the
//     network does. Neither a release by force waits for the holder, nor a store that
//     loses the lock, as Redis may in a fail-over.
//  3. The fencing tokens of a resource only rise, across release, expiry, sweep and
//     restart. Traits.Fencing says how strictly.
//  4. Every operation can be repeated. A lost reply never leads to a second grant and
//     never affects the next holder. The Client cleans up an abandoned acquire, which in
//     the worst case holds the resource for one TTL.
//  5. Where the store has a clock, no client's wall clock decides anything.
//  6. Granted, held by another client, lost and unknown are separate results. An error
//     that this package does not name means that the outcome is unknown.
//  7. In stores that keep a queue (Traits.Queue), clients that wait with LockOptions.Fair
//     are served in turn, and nobody overtakes them.
//
// # Limits
//
//   - A process can be stopped at any instruction, continue after its lock has expired,
//     and write. Code that ignores both the context and the token is not protected. Only
//     the receiver of a write can refuse it, by the token (see [Hold.Token]). The packages
//     pglock/fence, mongolock/fence, eslock/fence and fence/httpfence do so for rows,
//     documents and HTTP services.
//   - Without LockOptions.Fair, Clients are served in no particular order. The waiters of
//     one Client are served in order.
//   - Locks are not recursive, and deadlocks are not resolved: take several locks in the
//     same order everywhere.
//   - A store whose replication can lose what it confirmed, or whose clock steps, weakens
//     the guarantees: see the store's package and [Traits].
//   - The time that a machine sleeps counts. Linux has a clock that counts it. On other
//     systems the wall clock replaces it, which can make a holder give up early, and late
//     only if it is set back while the machine sleeps.
//   - Programs of other libraries that share their locks with Holdfast go by their own
//     clocks.
//
// # Waiting
//
// In stores that keep a queue (Traits.Queue), a caller that has waited for a second gets a
// place in the queue of the resource. With LockOptions.Fair it gets one at once. A
// [HeldError] names the waiters that are served first, and [Admin.Waiters] lists all. Other
// stores ignore Fair.
//
// # Time
//
// A hold lives for its TTL unless it is renewed. The Client renews it after a third of the
// TTL and retries until it has an answer. A hold counts as lost a margin before its end in
// the store (Options.Margin). The Client counts that end from before it sent the request
// that extended the hold last.
//
// # Shutdown
//
// End the ctx of the work when the program is to end (signal.NotifyContext), wait for the
// functions that work, and then call [Client.Close]. A program that ends by os.Exit,
// log.Fatal or an unhandled signal leaves its locks until their TTLs end.
//
// # Tests
//
// Package memlock is a store in memory. Clients that are to exclude each other share one
// memlock.Store: each Open of memory: makes another. [Admin.ForceRelease] shows the code
// what a loss is: by the holder's own Client at once, by another within a third of the TTL.
//
// # Records in the store
//
// A hold that was released or has expired leaves a record of its resource in the store,
// with the last token. If the store does not drop such records by itself (Traits.Sweeps),
// the Clients delete the records of resources that have been idle for a day, in the
// background: one Client sweeps about once an hour. See Options.Retention and Options.NoSweep.
//
// # Tools for operators
//
// [Client.Admin] lists, renews and releases the holds of all clients. A tool that uses it
// usually needs package driver too, which documents the fields and methods of [Status],
// [Filter], [Place], [Traits] and [HeldError]. Only package driver has SweepResult, the
// result of [Admin.Sweep]; ParseHoldID, for a hold ID from a command line; and the values
// Unknown (a duration that the store did not return), LimitUnknown and NoPlace. A program
// that only takes locks does not need it.
package holdfast
