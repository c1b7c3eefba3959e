// Package access decides who may do what on a server: it finds out who sent a request, and
// knows the rights of each caller. It keeps no locks.
//
// A right is a verb on a resource: Lock, Look or Force. What nobody was given is refused.
//
// A File is an auth file. It has callers, what each is known by, and the rules of its rights:
//
//	{
//	  "callers": [
//	    {
//	      "name": "billing",
//	      "tokenSha256": ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
//	      "certificateNames": ["spiffe://example.com/billing", "billing.example.com"],
//	      "rules": [
//	        {"resources": "billing/*", "may": ["lock", "look"]},
//	        {"resources": "leader", "may": ["lock"], "maxTtl": "forever"}
//	      ]
//	    }
//	  ]
//	}
//
// A caller is known by a token of NewToken, of which the file has the hash, or by a URI or
// host among the names of its client certificate; it may have several of each, so that they
// can be replaced one after the other. A rule's pattern is a name, or a prefix and one final
// "*". The rights of all rules that match count, and the longest maxTtl of those that give
// the right to lock: 24h where a rule has none.
package access

import (
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Verb is something that a caller may do with a resource.
type Verb uint8

// The verbs.
const (
	// Lock is to acquire, renew and release one's own holds, and to watch the resource.
	Lock Verb = iota
	// Look is to see who holds the resource and who waits for it.
	Look
	// Force is to release others' holds and places, and to see their IDs. On all resources
	// it is also the right to sweep.
	Force
)

// Caller is who sent a request. Its methods may be called concurrently. The rights may
// change at any time: they are looked at again before a grant is answered.
type Caller interface {
	// Name is what the caller's lock IDs begin with in the store, so that nobody else can
	// renew or release its holds. It is empty where callers are not distinguished. Any other
	// one is as ValidName wants it, or the server refuses the request: a name with a colon
	// could reach into the lock IDs of another.
	Name() string
	// May reports whether the caller has the right.
	May(v Verb, resource string) bool
	// MayAll reports whether the caller has the right on all resources.
	MayAll(v Verb) bool
	// MaxTTL is the longest TTL that the caller may ask for: driver.Forever if also one
	// without an end.
	MaxTTL(resource string) time.Duration
	// Changed returns a channel that is closed when rights of the caller may have changed
	// since the call, or it was removed.
	Changed() <-chan struct{}
}

// Identify returns the caller of a request. The error wraps ErrAnonymous if the request does
// not prove who sent it, and says why, for its sender.
type Identify func(*http.Request) (Caller, error)

// ErrAnonymous says that a request does not prove who sent it.
var ErrAnonymous = errors.New("no caller is known by that")

// fixed is a caller without a name that has the same rights on all resources.
type fixed map[Verb]bool

// Everybody returns the caller that all are where nobody proves who it is: it may lock and
// look, and has holds without an end.
func Everybody() Caller { return fixed{Lock: true, Look: true} }

// Onlooker returns a caller that may look at everything, and do nothing.
func Onlooker() Caller { return fixed{Look: true} }

// Operator returns a caller that may do everything.
func Operator() Caller { return fixed{Lock: true, Look: true, Force: true} }

func (fixed) Name() string                { return "" }
func (f fixed) May(v Verb, _ string) bool { return f[v] }
func (f fixed) MayAll(v Verb) bool        { return f[v] }
func (fixed) MaxTTL(string) time.Duration { return driver.Forever }
func (fixed) Changed() <-chan struct{}    { return nil }
