package storecall_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/storecall"
)

// A call sees that its scope has ended, however often the store asks, by whichever method.
func TestContextOfAnEndedScope(t *testing.T) {
	for name, ask := range map[string]func(c *storecall.Context){
		"Err":  func(c *storecall.Context) { _ = c.Err() },
		"Done": func(c *storecall.Context) { _ = c.Done() },
	} {
		for asks := range 20 {
			s := storecall.NewScope(nil)
			c := &storecall.Context{Parent: context.Background(), Scope: s, Timeout: time.Hour}
			for range asks / 2 {
				_ = c.Err()
			}
			s.End()
			for range asks - asks/2 {
				ask(c)
			}
			if c.Err() == nil {
				t.Errorf("%s, after %d calls: no error", name, asks)
			}
			_ = c.End(nil)
		}
	}
}
