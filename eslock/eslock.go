// Package eslock keeps locks in an index of Elasticsearch or OpenSearch, for any
// number of programs on any number of machines.
//
// It needs no client library: whatever has the method Perform will do, as the
// official Elasticsearch clients (v8, v9) and the OpenSearch client (v4) have.
// Elasticsearch must be 7.12 or newer, OpenSearch 2.4 or newer, and both must
// allow inline Painless scripts in updates, as they do unless told otherwise.
//
// The server decides in one scripted update of one document, on the clock of the
// node that holds the document's primary shard. The script reads it by
// System.currentTimeMillis, for the clock that scripts are offered lags behind.
// The reply to the same request tells who holds and for how long yet. Locking and
// unlocking wait for no refresh. There are no wake-ups: waiters ask from time to
// time, and when the hold ends.
//
// # Documents
//
// A document has the resource's name as its ID, or its SHA-256 if it has more
// than 512 bytes or the form of such a hash. The first three fields are those of the Go package
// es-distributed-lock, true for programs that use it:
//
//	{ "owner":    the lock ID of an exclusive hold; else what is nobody's
//	  "acquired": when the last hold was granted
//	  "expires":  when the last hold stops to block; the epoch if there is none,
//	              and the end of the year 9999 if it has no end
//	  "holdfast": {
//	    "token":    the last token granted
//	    "time":     the server's clock at the last change, in ms; not before the last token
//	    "due":      when the first of the holds stops to block, in ms; absent if none will
//	    "holds":    [ {lockId, holdId, mode, limit, token, owner, host, comment, created, renewed, end, delay, released} ],
//	    "wroteOwner", "wroteExpires": owner and expires as Holdfast wrote them
//	    "resource": the name, where it is not the ID
//	    "answer":   what the last change was answered } }
//
// An old client writes the first three fields and leaves holdfast as it is, so
// owner or expires is then not what Holdfast wrote. What is there is a new hold
// of that client: it has no hold ID and no token, its lock ID is its owner, and
// whoever held before has lost, also under the same owner. Old clients decide by
// their own clocks; beside them the guarantees are as good as these.
//
// Searches look into expires, time, due, and lockId and owner of the holds; of
// holdfast nothing else is indexed. A document that cannot be understood is
// driver.ErrDamaged to all who ask for it, and is not changed; but where time and
// expires say that nobody has used it for the retention, a sweep deletes it.
//
// # Tokens
//
// A token is larger than the last one in the document and not behind the clock.
// A sweep deletes a document only when the clock has left its token behind, so
// tokens rise strictly as long as nobody else deletes documents. An old client
// deletes them with every release: tokens then rise as the clock does, which is
// more than its resolution apart, and Options.OldClients makes Traits say so.
//
// # Clocks and fail-over
//
// When a primary shard moves to another node or fails over, that node's clock
// decides from then on. If it is ahead, holds end earlier by as much: keep the
// clocks of the nodes together within the client's margin, and give holds a
// takeover delay of the largest difference where that is not certain. Tokens do
// not depend on it. What was acknowledged is on all copies of the shard that
// were in sync, and on their disks, unless the index was told to write its
// translog later (index.translog.durability: async), which the store never does:
// an index so set can lose holds when a node loses power, and Traits says so.
package eslock

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// Performer sends a request whose URL has just a path and parameters to one of
// the servers that it knows, and returns the answer. It may be called
// concurrently. It may send a request more than once.
type Performer interface {
	Perform(*http.Request) (*http.Response, error)
}

// DefaultIndex is that of es-distributed-lock.
const DefaultIndex = "distributed-locks"

// Options change what New does. The zero value is the default.
type Options struct {
	// Index has the locks: an index, or an alias of just one. Init makes an index
	// that is missing. Where the alias is given to another index, or rolled over,
	// the locks stay in the index that it was of, and Init refuses until somebody
	// decides. Default: DefaultIndex.
	Index string
	// Replicas are the copies beside the primary of an index that Init makes.
	// Default: one as soon as there is a second node. Negative: none.
	Replicas int
	// WaitForActiveShards is how many copies must be there for a write to be
	// tried: a number, or "all". Default: the index's, which is 1. A write is
	// acknowledged by all copies that are in sync in any case.
	WaitForActiveShards string
	// OldClients says that programs with es-distributed-lock use the index, too.
	// Traits then say less of tokens. Such programs write IDs into a URL as they
	// are, and so lock the document a/b by the ID a%2Fb, and a by a#b: a resource
	// with such a name is refused, with the name to ask for instead. Nothing else
	// depends on it.
	OldClients bool
}

// Store is a driver.Store in an index. Any number of clients may use it.
type Store struct {
	client  Performer
	o       Options
	invalid error // of the options

	place atomic.Pointer[home]
	async atomic.Bool  // the index may lose what it has acknowledged
	most  atomic.Int32 // how many updates are sent at once
}

// home is where the locks are.
type home struct {
	alias string // that all requests name
	index string // that it is of, once Init has seen it
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// Traits of a store on an index of its own.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "elasticsearch", Reach: driver.Network, ServerClock: true,
		Durable: true, Shared: true, Sweeps: true, Fencing: driver.FencingStrict, Failover: driver.FailoverKeeps,
	}
}

// New keeps locks in an index that client reaches. It sends nothing; the
// holdfast.Client that gets the store calls Init before its first request. What
// is wrong with the options is the error of whatever is called first.
func New(client Performer, opts *Options) *Store {
	s := &Store{client: client}
	if opts != nil {
		s.o = *opts
	}
	if s.o.Index == "" {
		s.o.Index = DefaultIndex
	}
	s.invalid = s.o.check()
	s.place.Store(&home{alias: s.o.Index + aliasSuffix})
	s.most.Store(chunk)
	return s
}

// maxIndex is the longest name in bytes that leaves room for the alias.
const maxIndex = 255 - len(aliasSuffix)

func (o Options) check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: eslock: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch name := o.Index; {
	case len(name) > maxIndex:
		return fail("the name of the index has %d bytes, at most %d are allowed", len(name), maxIndex)
	case name == "." || name == ".." || strings.ContainsAny(name[:1], "-_+"),
		strings.ToLower(name) != name, strings.ContainsFunc(name, notInIndex):
		return fail("%q cannot be the name of an index", name)
	}
	if w := o.WaitForActiveShards; w != "" && w != "all" {
		if n, err := strconv.Atoi(w); err != nil || n < 1 {
			return fail("WaitForActiveShards %q is neither a number from 1 nor \"all\"", w)
		}
	}
	return nil
}

func notInIndex(r rune) bool {
	return r <= ' ' || r == 0x7f || r == 0xfffd || strings.ContainsRune(`\/*?"<>|,#:%`, r)
}

// Traits implements driver.Store. Once Init has seen that the index may lose what
// it has acknowledged, they say that: the clock then keeps the tokens rising.
func (s *Store) Traits() driver.Traits {
	t := Traits()
	if async := s.async.Load(); async || s.o.OldClients {
		t.Durable, t.Fencing = !async, driver.FencingClock
	}
	return t
}

// Close implements driver.Store. It does nothing: the client is not the store's.
func (s *Store) Close() error { return nil }

// ready is the error of a call that must not send anything.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.invalid
}
