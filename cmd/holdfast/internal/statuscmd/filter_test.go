package statuscmd

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
)

func parsed(t *testing.T, args []string) (f Filter) {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Flags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return f
}

func TestFilterFlags(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		args   []string
		want   holdfast.Filter
		narrow bool
	}{
		{nil, holdfast.Filter{}, false},
		{[]string{"--expired"}, holdfast.Filter{Expired: true}, false},
		{[]string{"--owner", "ada", "--lock-id", "x y"}, holdfast.Filter{Owner: "ada", LockID: "x y"}, true},
		{[]string{"--ttl-below", "1h", "--ttl-at-least", "1ms"}, holdfast.Filter{LeftBelow: time.Hour, LeftAtLeast: time.Millisecond}, true},
		{
			[]string{"--created-before", "0s", "--created-after", "1h30m"},
			holdfast.Filter{CreatedBefore: now, CreatedAfter: now.Add(-90 * time.Minute)}, true,
		},
		{
			[]string{"--created-before", "1h", "--created-before", "2026-11-21T13:00:00.5+01:00"},
			holdfast.Filter{CreatedBefore: now.Add(time.Second / 2)}, true,
		},
	} {
		f := parsed(t, c.args)
		if err := f.Validate(); err != nil {
			t.Errorf("%q: %v", c.args, err)
		}
		got := f.at(now)
		if !got.CreatedBefore.Equal(c.want.CreatedBefore) {
			t.Errorf("%q: before %v, want %v", c.args, got.CreatedBefore, c.want.CreatedBefore)
		}
		got.CreatedBefore = c.want.CreatedBefore // in the same zone
		if got != c.want || f.narrow != c.narrow {
			t.Errorf("%q: %+v, %v, want %+v, %v", c.args, got, f.narrow, c.want, c.narrow)
		}
	}
}

// An age is by the store's clock, whatever this machine's is. A date is a date.
func TestAges(t *testing.T) {
	store := time.Now().Add(-time.Hour)
	hold := holdfast.Status{Created: store.Add(-10 * time.Minute), Seen: store}
	old := holdfast.Status{Created: time.Now().Add(-10 * time.Minute)} // of a program without Holdfast
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, true},
		{[]string{"--created-before", "9m"}, true},
		{[]string{"--created-before", "11m"}, false},
		{[]string{"--created-after", "9m"}, false},
		{[]string{"--created-after", "11m"}, true},
		{[]string{"--created-after", "11m", "--created-before", "9m"}, true},
		{[]string{"--created-after", "2026-11-21T13:00:00Z"}, true}, // the store decides
	} {
		f := parsed(t, c.args)
		if f.aged(&hold) != c.want || f.aged(&old) != c.want {
			t.Errorf("%q: %v and %v, want %v", c.args, f.aged(&hold), f.aged(&old), c.want)
		}
		if d := f.dated(); !d.CreatedBefore.IsZero() || d.CreatedAfter.IsZero() == (len(c.args) == 2 && len(c.args[1]) > 9) {
			t.Errorf("%q: the store gets %+v", c.args, d)
		}
	}
}
