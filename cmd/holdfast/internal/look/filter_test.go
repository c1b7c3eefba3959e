package look

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
)

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
		var f Filter
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Flags(flags)
		if err := flags.Parse(c.args); err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
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
