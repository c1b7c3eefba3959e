// Package eslock keeps locks in an index of Elasticsearch or OpenSearch, for any
// number of programs on any number of machines.
//
// It needs no client library: it works with any client that has the method Perform, such
// as the official Elasticsearch clients (v8, v9) and the OpenSearch client (v4).
// Elasticsearch must be 7.12 or newer, OpenSearch 2.4 or newer, and both must allow
// inline Painless scripts in updates, which is their default.
//
// The server decides in one scripted update of one document, on the clock of the node
// with the document's primary shard. The script reads it by System.currentTimeMillis,
// because the clock that servers offer to scripts lags behind. The reply to the same
// request has the holders and the times left. Locking and unlocking wait for no refresh.
// There are no wake-ups: waiters poll, and try again when the hold ends.
//
// # Documents
//
// The ID of a document is the resource's name, or its SHA-256 if the name has more than
// 512 bytes or looks like such a hash. The first three fields are the fields of the Go
// package es-distributed-lock, and are correct for programs that use it:
//
//	{ "owner":    the lock ID if exclusive, "holdfast:" and a hold ID if shared, "" if free
//	  "acquired": when the last hold was granted
//	  "expires":  when the last hold stops to block; the epoch if there is none,
//	              and in the year 2262 if it has no end
//	  "holdfast": {
//	    "token":    the last token granted
//	    "time":     the server's clock at the last change, in ms; not before the last token,
//	                nor before the end of a place
//	    "due":      when the first of the holds stops to block, in ms; absent if none will
//	    "holds":    [ {lockId, holdId, mode, limit, token, owner, host, comment, created, renewed, end, delay, released} ],
//	    "places":   [ {placeId, lockId, mode, limit, owner, host, fair, since, asked, until} ], the queue, absent if empty
//	    "wroteOwner", "wroteExpires": owner and expires as Holdfast wrote them
//	    "resource": the name, where it is not the ID
//	    "answer":   the answer to the last change } }
//
// An old client writes the first three fields and leaves holdfast as it is, so owner or
// expires then differs from the values that Holdfast wrote. This is a new hold of that
// client: it has no hold ID and no token, its lock ID is its owner, and the holder before
// it has lost its hold, even under the same owner. Old clients decide by their own
// clocks, and write dates of them: beside them the guarantees depend on these clocks, and
// the age of their holds is unknown.
//
// A refusal that gives a place is a write. Like every write it waits for the copies that
// are in sync: servers have no other kind of write.
//
// Beside a hold of an old client there is no queue. Writing a place could make the
// client's keep-alive fail, which the client does not notice.
//
// Searches use expires, time, due, and lockId and owner of the holds. Nothing else in
// holdfast is indexed. Requests for a document that the store cannot decode fail with
// driver.ErrDamaged and do not change it. A sweep deletes it if, by time and expires, it
// has not been used for the retention.
//
// # Tokens
//
// A token is larger than the last one in the document and not behind the clock. A sweep
// deletes a document only when the clock is far enough ahead of its token, so tokens rise
// strictly as long as no other program deletes documents. An old client deletes them with
// every release: tokens then rise only across gaps larger than the resolution of the
// clock, and with Options.OldClients the Traits say so.
//
// # Clocks and fail-over
//
// When a primary shard moves to another node or fails over, that node's clock decides
// from then on. If it is ahead, holds end earlier by as much: keep the clocks of the
// nodes within the client's margin of each other, or give holds a takeover delay of the
// largest difference. Tokens do not depend on it. An acknowledged write is on all copies
// of the shard that were in sync, and on their disks, unless the index writes its
// translog later (index.translog.durability: async), which the store never sets. Such an
// index can lose holds when a node loses power, and the Traits say so.
package eslock

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// Performer sends a request whose URL has only a path and parameters to one of its
// servers, and returns the answer. It may be called concurrently. It may send a request
// more than once.
type Performer interface {
	Perform(*http.Request) (*http.Response, error)
}

// DefaultIndex is the default index of es-distributed-lock.
const DefaultIndex = "distributed-locks"

// Options are the optional settings of New. The zero value has the defaults.
type Options struct {
	// Index has the locks: an index, or an alias of just one. Init creates a missing
	// index. If the alias is moved to another index, or rolled over, the locks stay in
	// the former index, and Init fails until somebody decides which one to use. Default:
	// DefaultIndex.
	Index string
	// Replicas is the number of copies, besides the primary, of an index that Init
	// creates. Default: one as soon as there is a second node. Negative: none.
	Replicas int
	// WaitForActiveShards is how many copies must be available before a write is tried: a
	// number, or "all". Default: the setting of the index, which is 1. In any case all
	// copies that are in sync acknowledge a write.
	WaitForActiveShards string
	// OldClients says that programs with es-distributed-lock also use the index. Traits
	// then promises less about tokens. Such programs write IDs into a URL as they are,
	// and so lock the document a/b by the ID a%2Fb, and a by a#b or a/. The store refuses
	// a resource with such a name, and the error has the name to use instead. OldClients
	// has no other effect.
	OldClients bool
	// SpareRenewed makes a release that names a hold by its ID, but not by its token,
	// spare a hold that was renewed, as if it did not exist. It is for programs that
	// share holds by lock ID. If the answer to an acquire got lost, such a program has no
	// token, and releases by the hold ID alone what may have been granted. Another
	// program may have found that hold by its lock ID, renewed it and use it.
	SpareRenewed bool
}

// Store is a driver.Store in an index. Any number of clients may use it.
type Store struct {
	client  Performer
	o       Options
	invalid error // of the options

	alias string                 // the target of all requests
	index atomic.Pointer[string] // the index of the alias, once Init has seen it
	async atomic.Bool            // the index can lose acknowledged writes
	most  atomic.Int32           // the largest number of updates in a request
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Queue       = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// Traits returns the traits of a store on an index that only Holdfast uses.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "elasticsearch", Reach: driver.Network, ServerClock: true, Queue: true,
		Durable: true, Shared: true, Sweeps: true, Fencing: driver.FencingStrict, Failover: driver.FailoverKeeps,
	}
}

// New returns a store that uses the client. It sends nothing; the holdfast.Client that
// gets the store calls Init before its first request. If the options are invalid, every
// operation returns the error.
func New(client Performer, opts *Options) *Store {
	s := &Store{client: client}
	if opts != nil {
		s.o = *opts
	}
	if s.o.Index == "" {
		s.o.Index = DefaultIndex
	}
	s.invalid = s.o.check()
	s.alias = s.o.Index + aliasSuffix
	s.most.Store(chunk)
	return s
}

// maxIndex is the longest name, in bytes, that leaves room for the suffix of the alias.
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
		return fail("%s cannot be the name of an index", quote.Short(name))
	}
	if w := o.WaitForActiveShards; w != "" && w != "all" {
		if n, err := strconv.Atoi(w); err != nil || n < 1 {
			return fail("WaitForActiveShards %s is neither a number from 1 nor \"all\"", quote.Short(w))
		}
	}
	return nil
}

func notInIndex(r rune) bool {
	return r <= ' ' || r == 0x7f || r == 0xfffd || strings.ContainsRune(`\/*?"<>|,#:%`, r)
}

// Traits implements driver.Store. If Init has seen that the index can lose acknowledged
// writes, the traits say so: then only the clock keeps the tokens rising.
func (s *Store) Traits() driver.Traits {
	t := Traits()
	if async := s.async.Load(); async || s.o.OldClients {
		t.Durable, t.Fencing = !async, driver.FencingClock
	}
	return t
}

// Close implements driver.Store. It does nothing: the caller closes the client.
func (s *Store) Close() error { return nil }

// ready returns an error if a call must not send anything.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.invalid
}

// Format implements fmt.Formatter. It prints only the name of the type.
func (s *Store) Format(f fmt.State, _ rune) { fmt.Fprint(f, "eslock.Store") }
