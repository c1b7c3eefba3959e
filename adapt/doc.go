// Package adapt connects Holdfast to libraries that Go programs already use: schedulers,
// leader election, certificates and migrations. It imports none of these libraries, because
// their interfaces have only types of the standard library.
//
//   - [Job] makes a func() for robfig/cron and other timers.
//   - [Locker] and [Elector] implement the interfaces of gocron.
//   - [Lead] runs a function on one instance at a time, again after each loss: asynq's
//     scheduler, a consumer, a controller.
//   - [Names] implements certmagic's Locker, TryLocker and LockLeaseRenewer.
//   - [Migrations] implements goose's Locker.
//   - [Mutex] is a sync.Locker.
//
// docs/adapters.md describes each of them.
//
// # Losses
//
// None of these interfaces can report that a lock was lost while it was held, because the
// store could not be reached, the process was stopped, or an operator released the lock by
// force. Each adapter adds a way: the ctx of a job, of a leader or of a migration ends with
// the lock, its context.Cause is the *holdfast.LostError, and the result says so afterwards.
//
// A function that ignores its ctx continues, and other instances cannot know that: they are
// granted the lock after it has expired in the store. Protect data from late writes with the
// fencing token of holdfast.HoldOf(ctx): see Hold.Token.
//
// # Turns
//
// Within one process no adapter lets such a function run beside the next one. All adapters
// take turns at a resource of a Client: a caller has the turn from before it asks for the lock
// until its function has returned, or until Unlock, whether the lock is lost or not. The next
// caller waits (Lead, Names, Migrations, Mutex) or gets an error that matches holdfast.ErrHeld
// (Job, Locker, Elector; Names.TryLock returns false). Waits end with their ctx and with the
// Client. Callers with different Clients do not take turns: use one Client for each store.
//
// A caller that waits for its turn has no place in the store's queue. A caller with the ctx of
// the lock itself does not wait for its own turn: it gets ErrHeld.
//
// # Shutdown
//
// Stop the scheduler first, and then close the Client. Close ends the ctx of all running
// functions, and all waits. For the functions of Job, Lead and Migrate it waits up to 3 s, and
// keeps their locks until they return. It does not wait for jobs under Locker and Elector, nor
// for code under Names, Mutex and Migrations.Lock.
package adapt
