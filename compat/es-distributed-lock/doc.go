// Package lock stands in for the Go package es-distributed-lock. A program that
// uses that one gets distributed locks by Holdfast when it changes the import:
//
//	import lock "github.com/holdfast-go/holdfast/compat/es-distributed-lock"
//
// The client is the one that it has: go-elasticsearch v8 or v9 and opensearch-go v4
// do, and whatever else has the method Perform; for olivere/elastic there is an
// adapter in docs/migrate-elasticsearch.md. Index and documents are the same:
// programs with either package, and with Holdfast's own Client on package eslock,
// exclude one another on the index distributed-locks, so they can be replaced one
// by one. As long as old ones run, their clocks decide for them.
//
// What was promised is kept:
//
//	NewLock        sends nothing; the owner is a random UUID, one for the process
//	WithOwner      returns the same Lock
//	Acquire        does not wait: "lock held by other client"; the same owner, in
//	               whatever program, extends the lock
//	KeepAlive      returns at once; runs until its ctx ends or Release is called; an
//	               error before Acquire, or with a time that is not below the TTL;
//	               called again it does nothing; a lock that has expired is acquired
//	               again
//	Release        no error if there is nothing to release; a Lock that never tried
//	               to acquire releases what its owner has
//	MustRelease    an error if there was nothing to release
//	a Lock         can be acquired again after Release
//	fields         ID, Owner, Acquired and Expires, and their JSON
//	index          is made by the first use if it is missing
//
// What was wrong is not:
//
//	es-distributed-lock                               this package
//	-------------------                               ------------
//	the client's clock decides                        the server's clock decides
//	KeepAlive ignores that the lock could not be      it tries again in time; if that fails,
//	extended, and IsAcquired still says yes           IsAcquired turns false before others can have
//	                                                  the lock, and stays so until Acquire
//	KeepAlive takes a lock that was lost again, and   a lock that was lost stays lost until the
//	the program does not learn that others had it     program acquires it
//	IsAcquired says yes until the very end            it says no TTL/16 earlier, see IsAcquired
//	Acquire that fails sets Acquired and Expires      they are those of the last lock granted
//	a conflict of two requests, be it with its own    the server decides again
//	keep-alive, is "lock held by other client"
//	an Acquire that nobody heard the answer of stays  it is given back
//	Release that failed halfway cannot be repeated    it is repeated for five seconds, and can be
//	                                                  called again
//	a Lock that was late releases what another Lock   it releases what it acquired and nothing else
//	of its owner has acquired since
//	IsAcquired waits while a request is on its way    it never waits
//	a refresh with each step, delete by query         one update each, and no refresh
//	an index made by the first lock has a mapping by  it has the right one, and one shard; one that
//	chance                                            cannot keep locks is refused
//
// Where it differs otherwise: to extend never shortens, so that a request which
// comes late cannot end a lock too early; and when the keep-alive ends because the
// lock was lost, KeepAlive has to be called again after Acquire.
//
// Locks of one ID and one owner, in one process or in many, are one lock: what one
// of them releases is released for all, and the others learn it when they extend
// it. Give what must exclude each other different owners; in one process too,
// where the owner is the same unless WithOwner says otherwise.
//
// Nothing needs to be closed: a goroutine runs while KeepAlive does, and for five
// seconds at most while an Acquire without an answer is given back.
//
// es-distributed-lock writes IDs into a URL as they are. By c%2Fd it locks the
// document c/d, and by e#f the document e, which it cannot release then. IDs mean
// the same here, so that programs with either package exclude one another; here
// they are released. Refused are IDs with a question mark, what follows which a
// server takes for parameters, and those whose document is that of another ID in
// turn (a%252Fb). Holdfast's Client is given the name of the document: c/d, or e.
//
// IDs and owners are 1 to 1024 bytes of UTF-8 without NUL, TTLs 1 ms to 100 years.
// Whatever else is asked for, and a client that is nil, is an error that wraps
// driver.ErrInvalid, and nothing is sent. An error with the text "lock held by
// other client" wraps driver.ErrHeld and a *driver.HeldError, which says who has
// it. Any other means that the outcome is not known, unless it wraps another one of
// package driver.
//
// No waiting, no shared locks and no fencing: that is in the nature of these
// functions. Package holdfast has what is missing, on the same index.
package lock
