// Package acquire acquires the lock that run and lock ask for: it waits, tries
// again while the store gives no answer, and says who holds the lock meanwhile.
package acquire

import (
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// Request is what run and lock ask of a store, and how long they wait for it.
type Request struct {
	Store        location.Location
	Resource     string
	Mode         holdfast.Mode
	Options      holdfast.LockOptions
	TTL          time.Duration
	wait         time.Duration // unless forever; 0: ask once
	forever      bool
	poll         time.Duration // 0: the Client's own
	ConflictExit int           // the exit status if others hold it for as long as that
	verbose      bool
	quiet        bool
}

// Flags declares the flags of the acquisition but for --store and --ttl, and
// returns what checks them once they are parsed. The TTL must be set by then.
func (a *Request) Flags(cmd *cobra.Command) (finish func() error) {
	flags := cmd.Flags()
	flags.DurationVar(&a.wait, "wait", 0, "the longest `duration` to wait for the lock (default without end)")
	now := flags.BoolP("no-wait", "n", false, "do not wait: the same as --wait 0")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	flags.DurationVar(&a.poll, "poll", 0, "the longest `duration`, on average, between two tries in a store that wakes\n"+
		"nobody (default 500ms)")
	shared := flags.Bool("shared", false, "share the resource with others who share it")
	flags.IntVar(&a.Options.Limit, "limit", 0, "with --shared: at most `N` at a time (default no limit)")
	flags.StringVar(&a.Options.Owner, "owner", "", "the `name` to be shown as the holder's (default the user's)")
	flags.StringVar(&a.Options.Comment, "comment", "", "a `text` to be shown to those who look or wait")
	flags.DurationVar(&a.Options.TakeoverDelay, "takeover-delay", 0,
		"how long, as a `duration`, nobody else gets the lock after its holder fell\n"+
			"silent and its time ran out (default none)")
	a.ConflictExit = exit.NotAcquired
	flags.VarP((*exit.Status)(&a.ConflictExit), "conflict-exit", "E",
		"the exit `status` if the lock was not acquired in time")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say when the lock was acquired")
	flags.BoolVar(&a.quiet, "quiet", false, "do not say how far a lock in the local store reaches, nor, on a\n"+
		"terminal, who is waited for")

	return func() error {
		if *shared {
			a.Mode = holdfast.Shared
		}
		a.forever = !flags.Changed("wait") && !*now
		a.Options.TTL = a.TTL
		switch {
		case a.wait < 0:
			return exit.Usagef("--wait %v is negative; 0 means not to wait", a.wait)
		case flags.Changed("poll") && a.poll < time.Millisecond:
			return exit.Usagef("--poll %v is less than 1ms", a.poll)
		case a.Options.Limit < 0:
			return exit.Usagef("--limit %d is negative", a.Options.Limit)
		case a.Options.Limit > 0 && a.Mode != holdfast.Shared:
			return exit.Usagef("--limit %d needs --shared: an exclusive lock has one holder", a.Options.Limit)
		case a.Options.TakeoverDelay < 0:
			return exit.Usagef("--takeover-delay %v is negative", a.Options.TakeoverDelay)
		case a.Options.TakeoverDelay > holdfast.MaxTTL:
			return exit.Usagef("--takeover-delay %v is more than 100 years", a.Options.TakeoverDelay)
		}
		if err := (driver.Details{Owner: a.Options.Owner, Comment: a.Options.Comment}).Validate(); err != nil {
			return exit.Usagef("%v", err)
		}
		return nil
	}
}

// SetResource sets the resource.
func (a *Request) SetResource(resource string) error {
	a.Resource = resource
	if err := driver.ValidResource(resource); err != nil {
		return exit.Usagef("%v", err)
	}
	return nil
}

// acquired says that the lock was acquired to whoever wants to know.
func (a *Request) acquired(hold *holdfast.Hold, after time.Duration) {
	if !a.verbose {
		return
	}
	unit := time.Second
	switch {
	case after < time.Second:
		unit = time.Millisecond
	case after < time.Minute:
		unit = 100 * time.Millisecond
	}
	output.Say("acquired %q after %v, token %d", a.Resource, after.Round(unit), hold.Token())
}

// SayReach says how far the lock reaches if nobody said where to keep it.
func (a *Request) SayReach() {
	if !a.Store.Unasked || a.quiet {
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
	output.Say("this lock is for user %s on host %s only (%s)", name, host, a.Store.File)
}
