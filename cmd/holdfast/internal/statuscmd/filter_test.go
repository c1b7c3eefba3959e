package statuscmd

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
)

// An age is by the store's clock, whatever this machine's is. A date is for the store.
func TestCreatedBefore(t *testing.T) {
	store := time.Now().Add(-time.Hour)
	hold := holdfast.Status{Created: store.Add(-10 * time.Minute), Seen: store}
	foreign := holdfast.Status{Created: time.Now().Add(-10 * time.Minute)} // of a program without Holdfast
	for _, c := range []struct {
		args  []string
		old   bool
		dated bool
	}{
		{nil, true, false},
		{[]string{"9m"}, true, false},
		{[]string{"11m"}, false, false},
		{[]string{"2026-11-21T13:00:00Z"}, true, true},
		{[]string{"11m", "2026-11-21T13:00:00.5+01:00"}, true, true},
		{[]string{"2026-11-21T13:00:00Z", "11m"}, false, false},
	} {
		var f Filter
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Flags(flags)
		for _, arg := range c.args {
			if err := flags.Set("created-before", arg); err != nil {
				t.Fatalf("%q: %v", arg, err)
			}
		}
		if f.old(&hold) != c.old || f.old(&foreign) != c.old || f.CreatedBefore.IsZero() == c.dated {
			t.Errorf("%q: %v, %v and %+v", c.args, f.old(&hold), f.old(&foreign), f)
		}
	}
}
