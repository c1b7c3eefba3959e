// Package httpfence keeps stale holders of locks from a service that speaks HTTP.
//
// A holder that was stopped, or whose request was delayed, may ask for a write after
// another client has acquired its lock. Each acquisition has a larger token than all
// before it (Hold.Token). [Transport] sends it in the header [Header], and a [Handler] in
// front of the service refuses requests whose token is older than the newest one that it
// has seen for the resource.
//
// Every request that reaches the Handler needs a token, also to read: the first request
// of a new holder registers its token before it reads, so that no late write can come
// between its read and its write. Use patterns of the mux to route requests that need no
// lock around the Handler.
//
// # Whose token counts
//
// A token that is larger than the newest one becomes the newest only if Options.Trust
// accepts it: a client that could send any number would lock all holders out. [Held] asks
// the store of the locks whether a hold with that token is live. Authenticate callers in
// front of the Handler: the header says who holds a lock, not who may write. A refused
// request leaves nothing behind, in memory or in a table.
//
// # What a request can rely on
//
// When a request reaches the service, all requests with older tokens that came through
// this Handler have been ended: their contexts have ended (the cause is
// holdfast.ErrStale), and reads of their bodies have failed. If the service does not
// react to that for Options.Patience, it goes on beside the newer request. So does its
// work after it has returned, in another goroutine or on a hijacked connection, and its
// work in another process. Where that is not enough, check the token in the transaction
// of the write: [TokenOf] returns it, package pglock/fence compares it with the token of
// a row, and [Refuse] answers.
//
// [Memory] keeps the newest tokens in the process, and [Table] in SQL. Options.Newest
// says what both require.
//
// Tokens protect what exclusive holds do. They distinguish holders, not the requests of
// one holder: a late request with the same token is let through. So is a late request of
// a holder whose hold has ended, as long as no later holder has sent a request.
package httpfence
