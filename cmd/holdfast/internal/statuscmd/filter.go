package statuscmd

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Filter chooses the holds that status shows.
type Filter struct {
	holdfast.Filter
	// olderThan chooses the holds of this age by the store's clock; nil chooses all.
	olderThan *time.Duration
	// narrow: a flag leaves holds out.
	narrow bool
}

// Flags declares the flags of the filter.
func (f *Filter) Flags(flags *pflag.FlagSet) {
	narrowing := func(name, usage string, set func(text string) error) {
		flags.Func(name, usage, func(text string) error {
			f.narrow = true
			return set(text)
		})
	}
	narrowing("lock-id", "only the holds of this lock `ID`", func(text string) error {
		f.LockID = text
		return driver.ValidLockID(text)
	})
	narrowing("owner", "only the holds with this `name` as owner", func(text string) error {
		f.Owner = text
		if text == "" {
			return errors.New("a name is not empty")
		}
		return driver.Details{Owner: text}.Validate()
	})
	narrowing("created-before", "only the holds granted before a `time`: as in 2026-11-21T09:30:00Z, or how\n"+
		"long ago, as in 1h30m", f.setCreatedBefore)
	flags.BoolVar(&f.Expired, "expired", false, "also the expired holds that are not swept yet")
}

// setCreatedBefore reads a date or an age.
func (f *Filter) setCreatedBefore(text string) error {
	if age, err := time.ParseDuration(text); err == nil { // not of plain seconds: 2026 would rather be a year
		if age < 0 {
			return errors.New("it lies in the future")
		}
		f.CreatedBefore, f.olderThan = time.Time{}, &age
		return nil
	}
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return errors.New("want a time such as 2026-11-21T09:30:00Z, or how long ago, such as 1h30m")
	case t.Before(time.Unix(0, 0)):
		return errors.New("it lies before 1970")
	}
	f.CreatedBefore, f.olderThan = t, nil
	return nil
}

// old reports whether the hold has the age that is asked for. If that is not known, as of the
// holds of programs without Holdfast, its date counts, by this machine's clock.
func (f *Filter) old(s *holdfast.Status) bool {
	if f.olderThan == nil {
		return true
	}
	age := s.Age()
	if age == driver.Unknown {
		age = time.Since(s.Created)
	}
	return age > *f.olderThan
}
