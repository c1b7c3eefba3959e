package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/collect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/words"
)

// forced is one forced release.
type forced struct {
	store    location.Location
	resource string
	hold     holdfast.HoldID // zero: all
	reason   string          // empty: who does it
	sure     bool
}

// setHold reads the ID of the only hold to release.
func (f *forced) setHold(text string) error {
	id, err := driver.ParseHoldID(text)
	if err == nil && id.IsZero() { // it would mean all
		err = errors.New("it names nothing; status --json shows the IDs")
	}
	f.hold = id
	return err
}

// setReason reads why it is done.
func (f *forced) setReason(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("it says nothing")
	}
	f.reason = text
	return driver.ValidReason(text)
}

// parse reads the arguments.
func (f *forced) parse(args []string) error {
	var err error
	if f.resource, err = oneResource(args, "holdfast unlock --force RESOURCE"); err != nil {
		return err
	}
	if server.Reserved(f.resource) && f.hold.IsZero() {
		return exit.Usagef("by the hold of %q the servers of the store know it: without it they grant no lock until they are started "+
			"again. To release it all the same, name it with --hold", f.resource)
	}
	if !f.sure && !(term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))) {
		return exit.Usagef("there is no terminal to ask on; give --yes to do it without a question")
	}
	return nil
}

// run shows the holds of the resource, asks, and releases just those.
func (f *forced) run(ctx context.Context, asJSON bool) error {
	nothing := fmt.Sprintf("%q is not held", f.resource)
	if !f.hold.IsZero() {
		nothing = fmt.Sprintf("%q has no hold %s", f.resource, f.hold)
	}
	client, err := f.store.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	holds, err := collect.All(client.Admin().Holds(ctx, holdfast.Filter{Resource: f.resource}))
	if err != nil {
		return f.store.Failure(err)
	}
	if !f.hold.IsZero() {
		holds = slices.DeleteFunc(holds, func(s holdfast.Status) bool { return s.HoldID != f.hold })
	}
	if len(holds) == 0 {
		return printHolds(asJSON, nil, nothing)
	}
	rows, question := output.HoldRows(holds), "Release this hold by force? "
	if n := len(holds); n > 1 {
		rows = output.HoldRowsBy("HOLD ID", holds, func(s holdfast.Status) string { return s.HoldID.String() })
		question = fmt.Sprintf("Release these %d holds by force? --hold HOLD-ID releases one alone. ", n)
	}
	if err := output.Table(os.Stderr, rows); err != nil {
		return exit.Printed(err)
	}
	if !f.sure && !agreed(strings.TrimSpace(question+runsOn(holds))) {
		return exit.Errorf(exit.Failed, "nothing was released")
	}
	var gone []holdfast.Status
	admin := client.Admin()
	admin.Reason = f.reason
	for _, s := range holds {
		// By hold ID, so that a hold granted since then stays.
		done, failed := admin.ForceRelease(ctx, f.resource, s.HoldID)
		if failed != nil {
			err = f.store.Failure(failed)
			break
		}
		gone = append(gone, done...)
	}
	if len(gone) > 0 {
		text := fmt.Sprintf("released by force: %d of %d", len(gone), len(holds))
		if warning := runsOn(gone); f.sure && warning != "" { // otherwise the question has said it
			text += ". " + warning
		}
		output.Say("%s", text)
	}
	if asJSON || len(gone) == 0 {
		if unprinted := printHolds(asJSON, gone, nothing+" any more"); err == nil {
			err = unprinted
		}
	}
	return err
}

// runsOn says for how long the holders of holds that are released by force may run on. A hold's
// times make its TTL: its holder renews it when a third of that has passed, or else ends before
// the rest has.
func runsOn(holds []holdfast.Status) string {
	const begin = "Its holder may run on: "
	var next, most time.Duration
	for _, s := range holds {
		silent := words.PulseOf(s).Silent
		switch {
		case s.Released || s.Left == 0: // it has ended
		case s.Left == holdfast.Forever || s.Left == driver.Unknown || silent == driver.Unknown:
			return begin + "until its next renewal: nobody knows for how long."
		default:
			next, most = max(next, (s.Left+silent)/3-silent), max(most, s.Left)
		}
	}
	if most == 0 {
		return ""
	}
	return fmt.Sprintf(begin+"until its next renewal in %s, or for %s if that gets no answer. A script that renews nothing does not notice.",
		roundUp(next), roundUp(most))
}

// roundUp returns the time in whole seconds, for a limit.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// agreed asks the user on the terminal.
func agreed(question string) bool {
	fmt.Fprintf(os.Stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(os.Stderr) // so that the next line does not follow the question
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return err == nil
	}
	return false
}
