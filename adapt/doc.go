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
// are granted the lock when its time in the store is over. In its own process no
// adapter lets such a function run beside the next one: it first waits until the
// function has returned, or skips the next run. What must not be written late checks
// the fencing token of holdfast.HoldOf(ctx), see Hold.Token.
//
// # Shutdown
//
// Stop the scheduler first, and close the Client then. Close ends the ctx of all that
// runs. It gives Job, Lead and Migrations up to 3 s to return before it releases their
// locks, but not jobs under Locker and Elector, nor Names and Mutex.
package adapt
