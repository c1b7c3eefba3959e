//go:build unix

package campaign

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/holdfast-go/holdfast/lab/campaign/worker"
)

// samples returns the samples of the processes that ran from start to end.
func (c *campaign) samples() (all [][]worker.Sample, err error) {
	for _, p := range c.processes {
		one, readErr := readSamples(p.journal)
		err = errors.Join(err, readErr)
		if p.number < len(c.processes) {
			all = append(all, one)
		}
	}
	return all, err
}

func readSamples(path string) (all []worker.Sample, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for lines := json.NewDecoder(file); ; {
		var s worker.Sample
		if err := lines.Decode(&s); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
}
