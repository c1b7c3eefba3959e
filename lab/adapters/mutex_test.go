//go:build unix

package adapters_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/adapt"
)

func mutexLoop(ctx context.Context, w *worker) error {
	reported := make(chan error, 1)
	m := adapt.NewMutex(ctx, w.client, "mutex", &adapt.MutexOptions{OnLoss: func(err error) { reported <- err }})
	for ctx.Err() == nil {
		m.Lock()
		bound, cancel := m.Hold().Bind(ctx)
		err := w.work(bound)
		cancel()
		m.Unlock()
		if ctx.Err() == nil && !errors.Is(<-reported, err) {
			return fmt.Errorf("the work ended with %w, which was not reported", err)
		}
	}
	return nil
}
