// Package span reads durations as users of the shell write them: as Go does, or as plain
// seconds, as sleep, timeout and flock take them.
package span

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Parse reads a duration such as 500ms, 1h30m, 5 or 0.5. A number without a unit is in
// seconds. The error says how to write one.
func Parse(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	number := strings.TrimRight(text, "dw")
	switch plain := strings.Trim(number, "+-.0123456789") == ""; {
	case err == nil:
		return d, nil
	case plain && len(number) == len(text)-1:
		return 0, errors.New("the longest unit is the hour: three days are 72h")
	case plain && number == text:
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil {
		return 0, errors.New("want a duration such as 30s, 1h30m or 30, which is in seconds")
	}
	return d, nil
}

// Var declares a flag for a duration. If value is 0, its help shows no default.
func Var(flags *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	flags.Var((*flag)(p), name, usage)
}

// flag is a duration as a flag's value.
type flag time.Duration

// String is the flag's value.
func (f *flag) String() string {
	if *f == 0 {
		return "0" // for which pflag shows no default
	}
	return time.Duration(*f).String()
}

// Set reads the flag's value.
func (f *flag) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*f = flag(d)
	}
	return err
}

// Type names the value in the flag's help.
func (*flag) Type() string { return "duration" }
