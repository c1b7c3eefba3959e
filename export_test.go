package holdfast

import "time"

// WithClock returns a copy of the options, of which nil is the default, with a clock of
// deadlines. It must count the time that the machine sleeps, and never go back.
func WithClock(clock func() time.Duration, o *Options) *Options {
	var own Options
	if o != nil {
		own = *o
	}
	own.clock = clock
	return &own
}
