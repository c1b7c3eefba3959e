package holdfast

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// DefaultTTL is the TTL of holds unless options set another.
const DefaultTTL = 30 * time.Second

// MinTTL is the shortest TTL that a Client accepts. In a busy program a timer may
// fire a tenth of a second late. With a margin for that, a shorter TTL would leave no
// time to renew.
const MinTTL = 500 * time.Millisecond

// Options configure a Client. Nil and the zero value are the defaults. If a field is out
// of its range, all operations of the Client fail with ErrInvalid, and send nothing.
type Options struct {
	// Owner and Host name the holder for other clients. Default: the name of the
	// operating system's user, and the host's name.
	Owner, Host string
	// TTL is how long a hold lives unless it is renewed; the Client renews it
	// from TTL/3 on. Default: DefaultTTL.
	TTL time.Duration
	// Margin is how long before its end in the store a hold counts as lost, to
	// cover the drift of clocks, the lateness of timers and the time that
	// stopping takes. At least 50 ms, at most half the TTL. Default:
	// driver.DefaultMargin of the TTL.
	Margin time.Duration
	// Retention is how long sweeps keep the records of idle resources. Stores that
	// drop them by themselves (not Traits.Sweeps) do not use it. Default: 24 h. At
	// least 1 min.
	Retention time.Duration
	// NoSweep keeps the Client from sweeping by itself. In a store where records
	// stay until they are swept (Traits.Sweeps), Clients do that in the background,
	// about once an hour and one at a time: they hold driver.SweepResource until the next.
	NoSweep bool
	// LeaveHolds makes Close leave what is held to its end in the store instead
	// of releasing it.
	LeaveHolds bool
	// Poll is the longest pause, on average, between two attempts at a resource that
	// is held, if the store sends no signal when it is free. A program that tries
	// more often gets the lock more often: set 10 ms beside programs that try every
	// 10 ms. Default: 500 ms. At least 1 ms.
	Poll time.Duration
	// Logger gets warnings of renewals that fail, of losses, and once of a Lock that has
	// waited for 30 s while its ctx is bound to other holds; and debug lines of the other
	// events. It is called as Trace is. Default: none.
	Logger *slog.Logger
	// Trace observes what the Client does. Default: none.
	Trace *Trace

	clock func() time.Duration // of deadlines; nil: the machine's
}

// LockOptions configure one lock. Nil and the zero value are the defaults.
type LockOptions struct {
	// LockID groups locks: see Admin.ReleaseID. Default: a random one. An ID
	// guards against mistakes and is not a secret. One that is always the same, such as the
	// name of a pod, is no key to what a killed process held: the next process waits for that
	// until its TTL is over. As a lock ID has one hold of a resource at most, a shared lock
	// waits too. Meanwhile it has no place in the store's queue, and does not keep the others
	// of its Client waiting.
	LockID string
	// TTL, or Forever. Default: the Client's. An acquire that is given up is cleaned
	// up for that long, but 5 minutes at most: a request that takes longer to arrive
	// blocks the resource for a whole TTL.
	TTL time.Duration
	// Limit is how many shared holds there may be, this one included: a semaphore's
	// permits. Default: no limit; the largest is 2^31 - 1. Only RLock and TryRLock
	// take it. All programs that share a resource must use the same limit: while it is
	// held with another limit, requests are refused with HeldError.LimitDiffers.
	Limit int
	// Fair makes Lock and RLock wait in the store's queue from the start: no Client that
	// comes later is granted the resource before. The goroutines of one Client have one
	// place, that of the first of them; the next one inherits it, or comes last if the
	// first was granted, or was not fair. A store that keeps no queue (Traits.Queue)
	// ignores it. Default: a waiter may be overtaken.
	Fair bool
	// TakeoverDelay is how long the resource stays blocked after the hold
	// expired, but not after it was released. It gives holders time to notice that they
	// lost the lock. Default: none.
	TakeoverDelay time.Duration
	// NoKeepAlive leaves the hold to its TTL instead of renewing it.
	NoKeepAlive bool
	// Owner and Host default to the Client's; Comment is for people to read.
	Owner, Host, Comment string
}

// minRetention is the shortest Options.Retention, minPoll the shortest Options.Poll, and
// minMargin the shortest Options.Margin.
const (
	defaultPoll  = 500 * time.Millisecond
	minMargin    = 50 * time.Millisecond
	minRetention = time.Minute
	minPoll      = time.Millisecond
)

// config has the Options of a Client with all defaults, and what follows from them.
type config struct {
	opts    Options // with all defaults in place
	trace   Trace
	traced  bool // trace is set
	clock   func() time.Duration
	invalid error // what is wrong with the options: the error of every operation
}

func newConfig(o *Options) config {
	var cfg config
	if o != nil {
		cfg.opts = *o
	}
	o = &cfg.opts
	if o.Owner == "" {
		o.Owner = name(userName())
	}
	if o.Host == "" {
		host, _ := os.Hostname() // empty if it has none
		o.Host = name(host)
	}
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Retention = cmp.Or(o.Retention, 24*time.Hour)
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	if o.Trace != nil {
		cfg.trace, cfg.traced = *o.Trace, o.Trace.isSet()
	}
	if cfg.clock = o.clock; cfg.clock == nil {
		cfg.clock = clock.New()
	}
	var q driver.AcquireRequest
	switch cfg.invalid = cfg.request(&q, "any", Exclusive, &LockOptions{}); {
	case cfg.invalid != nil:
	case o.Poll < minPoll || o.Poll > MaxTTL:
		cfg.invalid = fmt.Errorf("%w: Poll %v is not between %v and 100 years", ErrInvalid, o.Poll, minPoll)
	case o.Retention < minRetention || o.Retention > MaxTTL:
		cfg.invalid = fmt.Errorf("%w: Retention %v is not between 1 min and 100 years", ErrInvalid, o.Retention)
	default:
		o.TTL = q.TTL // in whole milliseconds
	}
	return cfg
}

// name makes a user name or host name of the system valid for stores. Otherwise an
// odd name would make every lock fail.
func name(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?")
	if len(s) > driver.MaxName {
		s = strings.ToValidUTF8(s[:driver.MaxName], "")
	}
	return s
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// request fills in the request of one lock. Its error wraps ErrInvalid.
func (cfg *config) request(q *driver.AcquireRequest, resource string, mode Mode, o *LockOptions) (err error) {
	in := o
	if in == nil {
		in = &LockOptions{}
	}
	*q = driver.AcquireRequest{
		Resource: resource, LockID: in.LockID, HoldID: driver.NewHoldID(), Mode: mode, Limit: in.Limit,
		TTL:           cmp.Or(in.TTL, cfg.opts.TTL),
		TakeoverDelay: in.TakeoverDelay.Truncate(time.Millisecond), Fair: in.Fair,
		Details: driver.Details{
			Owner: cmp.Or(in.Owner, cfg.opts.Owner), Host: cmp.Or(in.Host, cfg.opts.Host), Comment: in.Comment,
		},
	}
	if q.LockID == "" {
		q.LockID = driver.NewHoldID().String() // as random as any; the hold ID itself is a secret
	}
	if err := cmp.Or(driver.ValidResource(resource), cfg.invalid); err != nil || o == nil {
		return err // without LockOptions, the rest comes from the Client's, which New has checked
	}
	if in.TakeoverDelay < 0 { // the request has whole milliseconds
		return fmt.Errorf("%w: takeover delay %v is negative", ErrInvalid, in.TakeoverDelay)
	}
	if q.TTL, err = cfg.validTTL(q.TTL); err != nil {
		return err
	}
	return q.Validate()
}

// validTTL truncates the TTL to what stores keep and checks it.
func (cfg *config) validTTL(ttl time.Duration) (time.Duration, error) {
	if ttl == Forever {
		return ttl, nil
	}
	asked := ttl
	ttl = ttl.Truncate(time.Millisecond)
	switch margin := cfg.marginOf(ttl); {
	case ttl < MinTTL:
		return 0, fmt.Errorf("%w: TTL %v is below %v", ErrInvalid, asked, MinTTL)
	case ttl > MaxTTL:
		return 0, fmt.Errorf("%w: TTL %v is above 100 years; use Forever", ErrInvalid, ttl)
	case margin < minMargin || margin > ttl/2:
		return 0, fmt.Errorf("%w: Margin %v is not between %v and half the TTL of %v", ErrInvalid, margin, minMargin, ttl)
	}
	return ttl, nil
}

// marginOf returns how long before its end a hold with that TTL counts as lost.
func (cfg *config) marginOf(ttl time.Duration) time.Duration {
	if cfg.opts.Margin != 0 {
		return cfg.opts.Margin
	}
	return driver.DefaultMargin(ttl)
}
