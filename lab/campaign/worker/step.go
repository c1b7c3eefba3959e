package worker

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// step moves the wall clock of this process. It is nil unless the program was built with
// package stepped.
var step func(by time.Duration)

// readSteps reads commands until the input ends: each line is a duration by which to move the
// wall clock.
func readSteps(told io.Reader) error {
	for lines := bufio.NewScanner(told); lines.Scan(); {
		by, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		if step == nil {
			return fmt.Errorf("the wall clock of this program cannot be moved by %v", by)
		}
		step(by)
	}
	return nil
}
