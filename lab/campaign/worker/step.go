package worker

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// step moves the wall clock of this process. It is nil unless the program was built
// for that, see package stepped.
var step func(by time.Duration)

// obey reads what a worker is told, until that ends: by how much its wall clock is to
// be moved, a line each.
func obey(told io.Reader) error {
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
