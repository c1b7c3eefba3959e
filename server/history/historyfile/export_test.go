package historyfile

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

// OpenBounded is Open with other bounds.
func OpenBounded(ctx context.Context, path string, keep time.Duration, maxBytes int64) (*history.Log, error) {
	return open(ctx, path, keep, maxBytes, nil)
}
