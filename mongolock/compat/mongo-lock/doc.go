// Package lock replaces the Go package mongo-lock. A program that uses mongo-lock gets
// the locks of Holdfast by changing the import:
//
//	import lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
//
// The collection is a collection of go.mongodb.org/mongo-driver/v2. Its documents are the
// same as before: programs with either package, and with Holdfast's own Client on package
// mongolock, exclude one another on one collection, so you can replace them one by one.
// As long as old programs run, they decide by their own clocks, and you must purge
// regularly: expired locks block old programs, except that an expired exclusive lock does
// not block another exclusive one.
//
// These promises are kept:
//
//	XLock, SLock   ErrAlreadyLocked also if the same lockId has the lock
//	SLock          maxConcurrent: negative is no limit, 0 is never
//	Unlock         all locks of the lockId, the newest first, one after the other;
//	               it is no error if there are none
//	Renew          all locks of the lockId, or ErrLockNotFound if there are none or
//	               one has less than a second left; the TTL may be shorter than before
//	Status         shows what has expired, too, with a TTL of 0, until it is gone
//	Filter         fields that are zero are ignored; TTLlt and TTLgte leave out locks
//	               without a TTL
//	Purge          takes all locks of a lockId of which one has expired
//	TTLs           are in whole seconds
//	errors         ErrAlreadyLocked and ErrLockNotFound are returned as they are
//	goroutines     there are none, and nothing needs to be closed
//
// These defects are fixed:
//
//	mongo-lock                                        this package
//	----------                                        ------------
//	an expired lock blocks others until it is         an expired lock blocks nobody and does not
//	purged, and counts for maxConcurrent              count
//	the client's clock decides                        the server's clock decides
//	Unlock and Renew take a failed connection for     an error is what it is; ErrLockNotFound is
//	ErrLockNotFound, and Unlock says it is done       said by the server alone
//	the first shared locks of a resource, asked       all that there is room for are granted
//	for at once: one is granted
//	SLock with maxConcurrent 0 is granted if the      it is ErrAlreadyLocked
//	resource was never locked
//	Purge reads, then unlocks by lockId: also what    the server decides what has expired when it
//	was locked or renewed in between                  unlocks it; of the other locks of the lockId,
//	                                                  Purge takes the very ones that it saw, of a
//	                                                  lock of mongo-lock by resource and lockId
//	Status shows an exclusive lock that does not      Filter chooses locks, one by one, by all of
//	match beside a shared one that does; of two       its fields
//	limits of time one is forgotten
//	Renew refuses locks without a TTL, although       Renew gives them one
//	promised, and may renew some before it fails      it renews nothing if one has not a second
//	                                                  left
//	Unlock and Renew with an empty lockId take all    an empty lockId or resource is refused
//	locks there are
//	without the unique index two can hold a lock      the first use makes the index, or fails and
//	                                                  says how to fix it
//	a lock whose grant got lost on its way stays      XLock and SLock release it, also if the request
//	                                                  arrives up to a second after the
//	                                                  server answers again
//
// Names are 1 to 1024 bytes of UTF-8 without NUL. So are owner, host and comment,
// which may also be empty. A TTL is at most 100 years. Other values are an error that
// wraps driver.ErrInvalid, and nothing is sent.
//
// These functions have TTLs in whole seconds, cannot wait, do not report lost locks, and
// have no fencing. Package holdfast has all this, on the same collection.
package lock
