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

// DefaultTTL is the TTL of a hold if neither Options nor LockOptions set one.
const DefaultTTL = 30 * time.Second

// MinTTL is the shortest TTL that a Client accepts. In a busy program timers fire up to a
// tenth of a second late: a shorter TTL would leave no time to renew.
const MinTTL = 500 * time.Millisecond

// Options configure a Client. A nil *Options and the zero value mean the defaults. If a
// field is out of its range, New succeeds, Open fails, and every operation of the Client
// returns ErrInvalid without a request to the store.
type Options struct {
	// Owner and Host name the holder for other clients. The defaults are the name of the
	// user of the process and the name of the machine.
	Owner, Host string

	// TTL is how long a hold lives unless it is renewed. The Client renews it after a
	// third of the TTL. At least MinTTL. The default is DefaultTTL.
	TTL time.Duration

	// Margin is how long before its end in the store a hold counts as lost. It covers the
	// drift of clocks, late timers and the time that the holder needs to stop. At least
	// 50 ms and at most half the TTL. The default is driver.DefaultMargin of the TTL:
	// 1.875 s for 30 s.
	Margin time.Duration

	// Retention is how long sweeps keep the record of an idle resource. Stores that drop
	// such records by themselves (Traits.Sweeps is false) ignore it. At least 1 min. The
	// default is 24 h.
	Retention time.Duration

	// NoSweep keeps the Client from sweeping in the background. By default, if the store
	// keeps records until they are swept (Traits.Sweeps), its Clients sweep about once an
	// hour, one at a time: the Client that has swept holds driver.SweepResource until the
	// next sweep is due.
	NoSweep bool

	// LeaveHolds makes Close leave the holds in the store until they expire. By default
	// Close releases them.
	LeaveHolds bool

	// Poll is the longest pause, on average, between two attempts at a held resource if
	// the store does not signal releases. Programs that retry more often get a contended
	// lock more often: set 10 ms beside programs that retry every 10 ms. At least 1 ms.
	// The default is 500 ms.
	Poll time.Duration

	// Logger gets warnings of failed renewals and lost locks, one of a Lock that has waited
	// for 30 s while its ctx is bound to other holds, and debug lines of other events. It
	// is called in the same way as Trace. By default nothing is logged.
	Logger *slog.Logger

	// Trace has functions that are called when the Client does something. The default is
	// none.
	Trace *Trace

	clock func() time.Duration // of deadlines; nil: the machine's
}

// LockOptions configure one lock. A nil *LockOptions and the zero value mean the defaults.
type LockOptions struct {
	// LockID is a name for one or several holds: Admin.RenewID and Admin.ReleaseID renew
	// and release all holds of a lock ID. It guards against mistakes and is not a secret.
	// The default is a random ID.
	//
	// A lock ID has at most one hold of a resource, also in shared mode. A fixed lock ID,
	// such as the name of a pod, does not give a restarted process the hold of its
	// predecessor: Lock waits until that hold has expired. While it waits for a hold of its
	// own lock ID, it has no place in the store's queue, and the other waiters of its
	// Client do not wait behind it.
	LockID string

	// TTL is how long the hold lives unless it is renewed, or Forever. At least MinTTL. The
	// default is Options.TTL. The Client goes on cleaning up an abandoned acquire for one TTL, but for
	// 5 minutes at most. An acquire that reaches the store later than that blocks the
	// resource for one TTL.
	TTL time.Duration

	// Limit is the largest number of shared holds of the resource, this one included:
	// the permits of a semaphore, as in the example of Client.RLock. At most 2^31 - 1; the
	// default is no limit. Only RLock and TryRLock accept it. All programs that share a
	// resource must use the same limit: while it is held with another limit, requests are
	// refused and HeldError.LimitDiffers is set.
	Limit int

	// Fair makes Lock and RLock wait in the store's queue from the start: no Client that
	// comes later is granted the resource first. The waiting goroutines of one Client
	// share one place, which belongs to the first of them. The next goroutine inherits the
	// place, but comes last if the first one was granted the lock or was not fair. Stores
	// that keep no queue (Traits.Queue) ignore Fair. By default a waiter can be overtaken.
	Fair bool

	// TakeoverDelay is how long the resource stays blocked after the hold has expired, to
	// give its holder time to notice the loss. It does not apply to a released hold. The
	// default is none.
	TakeoverDelay time.Duration

	// NoKeepAlive leaves the hold to expire after its TTL. By default the Client renews it.
	NoKeepAlive bool

	// Owner and Host replace Options.Owner and Options.Host for this lock. Comment is for
	// people to read.
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

// config is the Options of a Client with their defaults, and values derived from them.
type config struct {
	opts    Options // with all defaults in place
	trace   Trace
	traced  bool // trace is set
	clock   func() time.Duration
	invalid error // if the options are invalid: the error of every operation
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
// invalid name would make every lock fail.
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

// request fills in the acquire request of one lock. Its error wraps ErrInvalid.
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
		q.LockID = driver.NewHoldID().String() // not q.HoldID, which is a secret
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
