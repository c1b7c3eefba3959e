// Package historyfile keeps a history in a SQLite file.
//
// The file is that of one server: a second one gets an error. It can be read by its owner
// alone, and has a journal (-journal) beside it. It has no more than 128 MiB, and no hold that
// ended more than seven days ago. If there is no room, the oldest goes of the resource of which
// that caller has most who has most. The end of the process loses nothing that was written, at
// whatever moment; a power loss may lose the last seconds.
package historyfile

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

const (
	keep     = 7 * 24 * time.Hour
	maxBytes = 128 << 20
)

// Open opens the file, and makes it if it is missing. It refuses a file that others may read,
// that another server uses, that another program or another version has made, or that is damaged:
// it then changes nothing. The caller closes the Log.
func Open(ctx context.Context, path string, opts *history.Options) (*history.Log, error) {
	if path == "" {
		return nil, errors.New("history: the file has no name")
	}
	s, err := open(ctx, path, keep, maxBytes)
	if err != nil {
		return nil, err
	}
	return history.New(ctx, s, opts)
}
