package statuscmd

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
	"github.com/holdfast-go/holdfast/driver"
)

// Filter chooses the holds that status shows.
type Filter struct {
	Chosen        holdfast.Filter // without what is below
	createdBefore instant
	createdAfter  instant
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
		f.Chosen.LockID = text
		return driver.ValidLockID(text)
	})
	narrowing("owner", "only the holds with this `name` as owner", func(text string) error {
		f.Chosen.Owner = text
		if text == "" {
			return errors.New("a name is not empty")
		}
		return driver.Details{Owner: text}.Validate()
	})
	narrowing("created-before", "only the holds granted before a `time`: as in 2026-11-21T09:30:00Z, or how\n"+
		"long ago, as in 1h30m", f.createdBefore.set)
	narrowing("created-after", "only the holds granted after a `time`", f.createdAfter.set)
	narrowing("ttl-below", "only the holds with less than a `duration` left, none without an end",
		positive(&f.Chosen.LeftBelow))
	narrowing("ttl-at-least", "only the holds with at least a `duration` left, or without an end",
		positive(&f.Chosen.LeftAtLeast))
	flags.BoolVar(&f.Chosen.Expired, "expired", false, "also the expired holds that are not swept yet")
}

// Validate refuses a filter that no hold can match.
func (f *Filter) Validate() error {
	at := f.at(time.Now())
	switch {
	case at.LeftBelow > 0 && at.LeftBelow <= at.LeftAtLeast:
		return exit.Usagef("no hold has less than %v and at least %v left; raise --ttl-below, or lower --ttl-at-least",
			at.LeftBelow, at.LeftAtLeast)
	case !at.CreatedBefore.IsZero() && !at.CreatedAfter.Before(at.CreatedBefore):
		return exit.Usagef("no hold is created before %s and after %s; give a later --created-before, or an earlier --created-after",
			at.CreatedBefore.Format(time.RFC3339), at.CreatedAfter.Format(time.RFC3339))
	}
	return nil
}

// at returns the filter at that time.
func (f *Filter) at(now time.Time) holdfast.Filter {
	chosen := f.Chosen
	chosen.CreatedBefore = f.createdBefore.at(now)
	chosen.CreatedAfter = f.createdAfter.at(now)
	return chosen
}

// dated returns the filter without what is given as an age, see aged.
func (f *Filter) dated() holdfast.Filter {
	chosen := f.Chosen
	chosen.CreatedBefore, chosen.CreatedAfter = f.createdBefore.time, f.createdAfter.time
	return chosen
}

// aged reports whether the hold has the age that is asked for, by the store's clock. If
// that is not known, as of the holds of programs without Holdfast, its date counts, by this
// machine's clock.
func (f *Filter) aged(s *holdfast.Status) bool {
	before, after := f.createdBefore.ago, f.createdAfter.ago
	if before == nil && after == nil {
		return true
	}
	age := s.Age()
	if age == driver.Unknown {
		age = time.Since(s.Created)
	}
	return (before == nil || age > *before) && (after == nil || age < *after)
}

// positive returns a function that sets a positive duration.
func positive(d *time.Duration) func(text string) error {
	return func(text string) (err error) {
		if *d, err = span.Parse(text); err == nil && *d <= 0 {
			err = errors.New("a duration here is longer than 0")
		}
		return err
	}
}

// instant is a time, given as a date or as an age, or none.
type instant struct {
	time time.Time
	ago  *time.Duration
}

func (i *instant) set(text string) error {
	if ago, err := time.ParseDuration(text); err == nil { // not of plain seconds: 2026 would rather be a year
		if ago < 0 {
			return errors.New("it lies in the future")
		}
		i.ago = &ago
		return nil
	}
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return errors.New("want a time such as 2026-11-21T09:30:00Z, or how long ago, such as 1h30m")
	case t.Before(time.Unix(0, 0)):
		return errors.New("it lies before 1970")
	}
	i.time, i.ago = t, nil
	return nil
}

// at returns the instant at that time, the zero time for none.
func (i *instant) at(now time.Time) time.Time {
	if i.ago != nil {
		return now.Add(-*i.ago)
	}
	return i.time
}
