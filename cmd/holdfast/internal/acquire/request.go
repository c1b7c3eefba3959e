// Package acquire acquires the lock for run and lock: it waits, retries while the
// store gives no answer, and shows on a terminal who holds the lock.
package acquire

import (
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
	"github.com/holdfast-go/holdfast/server/words"
)

// Request has the resources, the store, and how long to wait.
type Request struct {
	Store        location.Location
	Resources    []string // sorted, each once
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
	span.Var(flags, &r.wait, "wait", 0, "the longest `duration` to wait for the lock (default without end)")
	now := flags.BoolP("no-wait", "n", false, "do not wait: the same as --wait 0")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	span.Var(flags, &r.poll, "poll", 0, "the longest `duration`, on average, between two tries in a store without\n"+
		"wake-ups (default 500ms)")
	shared := flags.Bool("shared", false, "lock in shared mode, beside other shared locks")
	flags.IntVar(&r.Options.Limit, "limit", 0, "with --shared: at most `N` at a time (default no limit)")
	flags.BoolVar(&r.Options.Fair, "fair", false, "wait in the store's queue from the start: nobody who comes later gets the\n"+
		"lock before")
	flags.StringVar(&r.Options.Owner, "owner", "", "the `name` of the holder that others see (default the user's)")
	flags.StringVar(&r.Options.Comment, "comment", "", "a `text` that status and waiters show (default of run: the command's name and\n"+
		"the process ID)")
	span.Var(flags, &r.Options.TakeoverDelay, "takeover-delay", 0,
		"how long, as a `duration`, the resource stays locked after the lock has\n"+
			"expired without a release (default none)")
	r.ConflictExit = exit.NotAcquired
	flags.VarP(exit.Status{To: &r.ConflictExit}, "conflict-exit", "E",
		"the exit `status` if the lock was not acquired in time")
	flags.BoolVarP(&r.verbose, "verbose", "v", false, "say when the lock was acquired")
	asJSON := flags.Bool("json-log", false, "print each line on stderr as a JSON object, also those of --verbose")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "print errors alone: not who holds the lock, neither while waiting nor at the\n"+
		"end of the wait, nor how far a lock in the local store reaches")

	return func() error {
		if *asJSON {
			output.LogJSON()
		}
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
		r.Options.Owner = r.shown(flags.Lookup("owner"))
		r.Options.Comment = r.shown(flags.Lookup("comment"))
		return nil
	}
}

// maxResources is how many resources a run may have. What describes them is in the
// environment of its command, where the system limits each variable.
const maxResources = 50

// SetResources sets the resources, if they are valid names. They are acquired in the order
// of their names, so that two requests never wait for each other.
func (r *Request) SetResources(names ...string) error {
	if len(names) > maxResources {
		return exit.Usagef("there are %d resources; a run has at most %d", len(names), maxResources)
	}
	r.Resources = slices.Sorted(slices.Values(names))
	for i, name := range r.Resources {
		if err := driver.ValidResource(name); err != nil {
			return exit.Usagef("%v", err)
		}
		if i > 0 && name == r.Resources[i-1] {
			return exit.Usagef("the resource %q is named twice", name)
		}
	}
	return nil
}

// Names names the resources in a sentence.
func (r *Request) Names() string { return output.List(r.Resources) }

// tell prints an event with --verbose. Programs learn it always.
func (r *Request) tell(event string, attrs []slog.Attr, format string, args ...any) {
	if r.verbose {
		output.SayEvent(event, attrs, format, args...)
	} else {
		output.Record(event, attrs, format, args...)
	}
}

// acquired tells that the locks were acquired.
func (r *Request) acquired(holds []*holdfast.Hold, after time.Duration) {
	unit := time.Second
	switch {
	case after < time.Second:
		unit = time.Millisecond
	case after < time.Minute:
		unit = 100 * time.Millisecond
	}
	for _, h := range holds {
		r.tell("acquired", append(LockAttrs(h), slog.Int64("waitedMs", after.Milliseconds())),
			"acquired %q after %v, token %d", h.Resource(), after.Round(unit), h.Token())
	}
}

// LockAttrs returns what the lines of a journal say about a lock.
func LockAttrs(h *holdfast.Hold) []slog.Attr {
	return []slog.Attr{slog.String("resource", h.Resource()), slog.String("lockId", h.LockID()), slog.Uint64("token", h.Token())}
}

// Inform prints a line that is no error, unless --quiet.
func (r *Request) Inform(format string, args ...any) {
	if !r.quiet {
		output.Say(format, args...)
	}
}

// SayWanted tells that the command gets a signal because others wait.
func (r *Request) SayWanted(hold *holdfast.Hold, command string, sig os.Signal) {
	r.tell("wanted", LockAttrs(hold), "others wait for %q, so %q gets a signal (%v)", hold.Resource(), command, sig)
}

// SayReach prints that the lock is local if no store was named.
func (r *Request) SayReach() {
	if !r.Store.Unasked {
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
	r.Inform("this lock is for user %s on host %s only (%s)", name, host, r.Store.File)
}

// shown returns the text of a flag that is for people alone, as a store takes it: what is no UTF-8
// is escaped, and what is too long is cut.
func (r *Request) shown(flag *pflag.Flag) string {
	text := flag.Value.String()
	fits := text
	if !utf8.ValidString(fits) {
		fits = words.Printable(fits)
	}
	if len(fits) > driver.MaxName {
		fits = strings.ToValidUTF8(fits[:driver.MaxName], "")
	}
	if fits != text {
		r.Inform("%s is longer than %d bytes or no UTF-8: the lock has it as %s", env.Given(flag), driver.MaxName, quote.Short(fits))
	}
	return fits
}
