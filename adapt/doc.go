// Package adapt plugs Holdfast into what Go programs already run: schedulers, leaders,
// certificates, migrations. It needs none of these libraries, because their interfaces
// have only types of the standard library.
//
//   - Job makes a func() of a job for robfig/cron and other timers.
//   - Locker and Elector are gocron's.
//   - Lead runs a function on one instance at a time, again after each loss: asynq's
//     scheduler, a consumer, a controller.
//   - Names is certmagic's Locker, TryLocker and LockLeaseRenewer.
//   - Migrations is goose's Locker.
//   - Mutex is a sync.Locker.
//
// # Losses
//
// None of these interfaces has a way to report that a lock was lost while it was held:
// the store could not be reached, the process was stopped, an operator released it by
// force. Each adapter adds one: the ctx of a job, of a leader or of a migration ends
// with the lock, context.Cause is the *holdfast.LostError, and the function's result says
// so afterwards. docs/adapters.md describes each.
//
// A function that ignores its ctx goes on, and other instances cannot know that: they
// are granted the lock when its time in the store is over. What must not be written late
// checks the fencing token of holdfast.HoldOf(ctx), see Hold.Token.
//
// # Turns
//
// In its own process no adapter lets such a function run beside the next one. All adapters
// take turns at a resource of a Client: a caller has its turn from before it asks for the
// lock until its function has returned, or until Unlock, lost or not. The next one waits
// (Lead, Names, Migrations, Mutex) or is refused with an error that is holdfast.ErrHeld (Job,
// Locker, Elector; Names.TryLock returns false). Waits end with their ctx, and with the
// Client. Callers with different Clients take no turns: use one Client for each store.
//
// A wait for a turn is not in the store's queue. A caller with the ctx of the lock itself does
// not wait for its own turn: it gets ErrHeld.
//
// # Shutdown
//
// Stop the scheduler first, and close the Client then. Close ends the ctx of all that
// runs, and all waits. It gives the functions of Job, Lead and Migrate up to 3 s to return,
// and keeps their locks alive until then, but not jobs under Locker and Elector, nor what runs under
// Names, Mutex and Migrations.Lock.
package adapt
