package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
)

const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
)

func intervalFlag(flags *pflag.FlagSet) *time.Duration {
	var d time.Duration
	span.Var(flags, &d, "interval", defaultInterval, "the `duration` between two looks at the store")
	return &d
}

func validInterval(d time.Duration) error {
	if d < minInterval {
		return exit.Usagef("--interval %v is below %v", d, minInterval)
	}
	return nil
}
