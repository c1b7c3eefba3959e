// Package holdfast takes distributed locks on a database that is already there:
// exclusive and shared locks with fencing tokens. The Client renews them while they
// are held, and their context ends before another client can acquire the same
// resource.
//
//	client, err := holdfast.Open(ctx, "sqlite:/var/lib/app/locks.db", nil)
//	...
//	err = client.Do(ctx, "nightly-report", nil, func(ctx context.Context) error {
//		return report(ctx) // ctx ends if the lock is lost
//	})
//
// Importing a store's package makes its URLs known to Open: sqlitelock
// ("sqlite:"), pglock ("postgres:", "postgresql:"), redislock ("redis:",
// "rediss:"), mongolock ("mongodb:", "mongodb+srv:"), eslock/esurl
// ("elasticsearch:", "opensearch:", and both with "+https"), memlock ("memory:").
//
// # What is guaranteed
//
//  1. Mutual exclusion on the store's clock: never two live exclusive holds of a
//     resource, never an exclusive one beside shared ones, never more shared
//     holds than their limit, on which all of them agree.
//  2. The holder learns first: the context of a Hold ends, with the reason, before
//     the store can grant the resource to another client, whatever the network does.
//     A release by force is the exception, by design.
//  3. Tokens only rise, across release, expiry, sweep and restart.
//  4. Every operation may be repeated. A lost reply never leads to a second grant and
//     never affects the next holder; an abandoned acquire is cleaned up, and in the
//     worst case holds the resource for one TTL.
//  5. No client's wall clock decides anything where the store has a clock.
//  6. Granted, held by another client, lost and unknown are separate results. An
//     error that this package does not name means unknown.
//  7. Clients that wait with LockOptions.Fair are served in turn, in stores that keep a
//     queue (Traits.Queue), and nobody passes them.
//
// # What is not
//
//   - Work that ignores both the context and the token. A process can be stopped at
//     any instruction, continue after its lease, and write. Only the receiver of the
//     write can refuse it, by the token (see Hold.Token; pglock/fence does so for
//     rows, mongolock/fence and eslock/fence for documents, fence/httpfence for services
//     that speak HTTP).
//   - Fairness between Clients, but for those that wait with LockOptions.Fair. The
//     waiters of one Client are served in order.
//   - Recursive locks, and the end of a circle of callers that wait for each other: take
//     several locks in one order everywhere.
//   - Stores whose replication can forget what they confirmed, or whose clock
//     steps: see each store's package.
//   - Machines that sleep, on systems without a clock that counts sleep. Linux has
//     one; elsewhere the wall clock replaces it, which can make a holder give up
//     early, never late.
//   - Old programs that run beside Holdfast on the same data: their own clocks
//     decide for them.
//
// # Who waits
//
// In stores that keep a queue (Traits.Queue), a caller that has waited for a second gets a
// place in the record of the resource, and with LockOptions.Fair at once. A refusal names
// those that are served before (HeldError), and operators see them all (Admin). Other stores
// ignore Fair.
//
// # What stays in the store
//
// A hold that was released or has expired leaves a record of its resource behind,
// with the last token. If the store does not drop it by itself (Traits.Sweeps), the
// Clients do, in the background, when it has been idle for a day: about once an hour
// one of them sweeps, however many there are. See Options.Retention and
// Options.NoSweep.
//
// # Time
//
// A hold lives for its TTL unless it is renewed. The Client renews it from TTL/3 on
// and repeats what fails; locally it counts as lost a margin before its end. That end
// is counted from before the request was sent that last extended it. The time that a
// machine sleeps counts.
package holdfast
