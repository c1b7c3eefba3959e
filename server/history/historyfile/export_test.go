package historyfile

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

// OpenBounded is Open with other bounds.
func OpenBounded(ctx context.Context, path string, keep time.Duration, maxBytes int64) (*history.Log, error) {
	s, err := open(ctx, path, keep, maxBytes)
	if err != nil {
		return nil, err
	}
	return history.New(ctx, s, nil)
}
