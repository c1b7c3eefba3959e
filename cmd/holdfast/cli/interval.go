package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
)

func intervalFlag(flags *pflag.FlagSet) *time.Duration {
	return flags.Duration("interval", defaultInterval, "the `duration` between two looks at the store")
}

func validInterval(d time.Duration) error {
	if d < minInterval {
		return exit.Usagef("--interval %v is below %v", d, minInterval)
	}
	return nil
}
