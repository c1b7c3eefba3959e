// Package lock replaces the Go package es-distributed-lock. A program that uses
// es-distributed-lock gets the locks of Holdfast by changing the import:
//
//	import lock "github.com/holdfast-go/holdfast/eslock/compat/es-distributed-lock"
//
// The program keeps its client: go-elasticsearch v8 or v9, opensearch-go v4, or anything
// else that has the method Perform. docs/migrate-elasticsearch.md has an adapter for
// olivere/elastic. Index and documents are the same as before: programs with either
// package, and with Holdfast's own Client on package eslock, exclude one another on the
// index distributed-locks, so you can replace them one by one. As long as old programs
// run, they decide by their own clocks.
//
// These promises are kept:
//
//	NewLock        sends nothing; the owner is a random UUID, one for the process
//	WithOwner      returns the same Lock
//	Acquire        does not wait: "lock held by other client"; the same owner, in
//	               any program, extends the lock
//	KeepAlive      returns at once; runs until its ctx ends or Release is called; an
//	               error before Acquire, or with a time that is not below the TTL;
//	               a second call does nothing; a lock that has expired is acquired
//	               again
//	Release        no error if there is nothing to release; a Lock that never tried
//	               to acquire releases what its owner has
//	MustRelease    an error if there was nothing to release
//	a Lock         can be acquired again after Release
//	fields         ID, Owner, Acquired and Expires, and their JSON
//	index          the first use creates it if it is missing
//
// These defects are fixed:
//
//	es-distributed-lock                               this package
//	-------------------                               ------------
//	the client's clock decides                        the server's clock decides
//	KeepAlive ignores that the lock could not be      it retries in time; if that fails,
//	extended, and IsAcquired stays true               IsAcquired turns false before others can have
//	                                                  the lock, and stays so until Acquire
//	KeepAlive takes a lock that was lost again, and   a lock that was lost stays lost until the
//	the program does not learn that others had it     program acquires it
//	IsAcquired is true until the very end             it turns false TTL/16 earlier, see IsAcquired
//	Acquire that fails sets Acquired and Expires      they describe the last granted lock
//	a conflict of two requests, even with its own     the server decides again
//	keep-alive, is "lock held by other client"
//	an Acquire without an answer leaves a lock        the lock is released, unless its owner has
//	                                                  extended it since, by another Lock
//	Release that failed halfway cannot be repeated    it retries for five seconds, and can be
//	                                                  called again
//	a Lock that was late releases what another Lock   it releases what it acquired and nothing else
//	of its owner has acquired since
//	IsAcquired waits while a request is under way     it never waits
//	a refresh with each step, delete by query         one update each, and no refresh
//	an index made by the first lock has a mapping by  it has the right one, and one shard; one that
//	chance                                            cannot keep locks is refused
//
// There are two more differences. An extension never shortens a lock, so a late request
// cannot end it too early. When the keep-alive ends because the lock was lost, call
// KeepAlive again after Acquire.
//
// Locks with the same ID and owner, in one process or in many, are one lock: if one of
// them releases it, it is released for all, and the others learn that when they extend
// it. Locks that must exclude each other need different owners, even in one process,
// whose Locks share an owner unless WithOwner sets another.
//
// Nothing needs to be closed. After an Acquire without an answer a goroutine releases
// what may have been granted, for up to five seconds; KeepAlive uses a timer.
//
// es-distributed-lock writes IDs into a URL as they are. By c%2Fd it locks the document
// c/d, and by e#f the document e, which it then cannot release. IDs mean the same here,
// so that programs with either package exclude one another, but all locks can be
// released. Two kinds of IDs are refused: an ID with a question mark, because a server
// reads the rest as parameters, and an ID whose document has a name that is another
// lock's ID in turn (a%252Fb). Give Holdfast's Client the name of the document: c/d, or
// e.
//
// IDs and owners are 1 to 1024 bytes of UTF-8 without NUL, TTLs 1 ms to 100 years.
// Other values, and a client that is nil, are an error that wraps driver.ErrInvalid;
// nothing is sent. An error with the text "lock held by other client" wraps
// driver.ErrHeld and a *driver.HeldError, which says who has the lock. Any other
// error means that the outcome is unknown, unless it wraps another one of package
// driver.
//
// A lock without a holder also counts as held while programs with Holdfast's Client wait
// for it in order (LockOptions.Fair).
//
// These functions cannot wait, and have neither shared locks nor fencing. Package
// holdfast has all this, on the same index.
package lock
