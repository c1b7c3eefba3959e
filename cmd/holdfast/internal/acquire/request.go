// Package acquire acquires the lock for run and lock: it waits, retries while the
// store gives no answer, and shows on a terminal who holds the lock.
package acquire

import (
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// Request has the resource, the store, and how long to wait.
type Request struct {
	Store        location.Location
	Resource     string
	Mode         holdfast.Mode
	Options      holdfast.LockOptions
	TTL          time.Duration
	wait         time.Duration // unless forever; 0: ask once
	forever      bool
	poll         time.Duration // 0: the Client's own
	NeedsQueue   string        // the flag that needs a store with a queue; empty: none
	Runs         bool          // a command is run under the lock
	ConflictExit int           // the exit status if the lock was not acquired in time
	verbose      bool
	quiet        bool
}

// Flags declares the flags that run and lock share, except --store. The returned
// function checks them after parsing; the TTL must be set by then.
func (r *Request) Flags(cmd *cobra.Command) (finish func() error) {
	flags := cmd.Flags()
	flags.DurationVar(&r.wait, "wait", 0, "the longest `duration` to wait for the lock (default without end)")
	now := flags.BoolP("no-wait", "n", false, "do not wait: the same as --wait 0")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	flags.DurationVar(&r.poll, "poll", 0, "the longest `duration`, on average, between two tries in a store without\n"+
		"wake-ups (default 500ms)")
	shared := flags.Bool("shared", false, "lock in shared mode, beside other shared locks")
	flags.IntVar(&r.Options.Limit, "limit", 0, "with --shared: at most `N` at a time (default no limit)")
	flags.BoolVar(&r.Options.Fair, "fair", false, "wait in the store's queue from the start: nobody who comes later gets the\n"+
		"lock before")
	flags.StringVar(&r.Options.Owner, "owner", "", "the `name` of the holder that others see (default the user's)")
	flags.StringVar(&r.Options.Comment, "comment", "", "a `text` that status and waiters show")
	flags.DurationVar(&r.Options.TakeoverDelay, "takeover-delay", 0,
		"how long, as a `duration`, the resource stays locked after the lock has\n"+
			"expired without a release (default none)")
	r.ConflictExit = exit.NotAcquired
	flags.VarP((*exit.Status)(&r.ConflictExit), "conflict-exit", "E",
		"the exit `status` if the lock was not acquired in time, or in a deadlock")
	flags.BoolVarP(&r.verbose, "verbose", "v", false, "say when the lock was acquired")
	flags.BoolVar(&r.quiet, "quiet", false, "do not print how far a lock in the local store reaches, nor, on a\n"+
		"terminal, the holder and the position while waiting")

	return func() error {
		if *shared {
			r.Mode = holdfast.Shared
		}
		r.forever = !flags.Changed("wait") && !*now
		r.Options.TTL = r.TTL
		if r.Options.Fair {
			r.NeedsQueue = env.Given(flags.Lookup("fair"))
		}
		switch {
		case r.wait < 0:
			return exit.Usagef("--wait %v is negative; 0 means not to wait", r.wait)
		case flags.Changed("poll") && r.poll < time.Millisecond:
			return exit.Usagef("--poll %v is less than 1ms", r.poll)
		case r.Options.Limit < 0:
			return exit.Usagef("--limit %d is negative", r.Options.Limit)
		case r.Options.Limit > driver.MaxLimit:
			return exit.Usagef("--limit %d is larger than %d; leave it out for no limit", r.Options.Limit, driver.MaxLimit)
		case r.Options.Limit > 0 && r.Mode != holdfast.Shared:
			return exit.Usagef("--limit %d needs --shared: an exclusive lock has one holder", r.Options.Limit)
		case r.Options.TakeoverDelay < 0:
			return exit.Usagef("--takeover-delay %v is negative", r.Options.TakeoverDelay)
		case r.Options.TakeoverDelay > holdfast.MaxTTL:
			return exit.Usagef("--takeover-delay %v is more than 100 years", r.Options.TakeoverDelay)
		}
		if err := (driver.Details{Owner: r.Options.Owner, Comment: r.Options.Comment}).Validate(); err != nil {
			return exit.Usagef("%v", err)
		}
		return nil
	}
}

// SetResource sets the resource, if it is a valid name.
func (r *Request) SetResource(resource string) error {
	r.Resource = resource
	if err := driver.ValidResource(resource); err != nil {
		return exit.Usagef("%v", err)
	}
	return nil
}

// acquired prints that the lock was acquired, with --verbose.
func (r *Request) acquired(hold *holdfast.Hold, after time.Duration) {
	if !r.verbose {
		return
	}
	unit := time.Second
	switch {
	case after < time.Second:
		unit = time.Millisecond
	case after < time.Minute:
		unit = 100 * time.Millisecond
	}
	output.Say("acquired %q after %v, token %d", r.Resource, after.Round(unit), hold.Token())
}

// SayWanted prints that the command gets a signal because others wait, with --verbose.
func (r *Request) SayWanted(command string, sig os.Signal) {
	if r.verbose {
		output.Say("others wait for %q, so %q gets a signal (%v)", r.Resource, command, sig)
	}
}

// SayReach prints that the lock is local if no store was named.
func (r *Request) SayReach() {
	if !r.Store.Unasked || r.quiet {
		return
	}
	name := fmt.Sprintf("number %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this one"
	}
	output.Say("this lock is for user %s on host %s only (%s)", name, host, r.Store.File)
}
