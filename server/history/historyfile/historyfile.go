// Package historyfile keeps a history in a SQLite file.
//
// The file is that of one server: a second one gets an error. It can be read by its owner
// alone, and has a journal (-journal) and a lock (-lock, -lock-journal) beside it. It has no
// more than Options.MaxBytes, and no hold that ended longer than Options.Keep ago. If there is no
// room, the oldest goes of the resource of which that caller has most who has most. The end of the process loses nothing that was written, at whatever moment; a power
// loss may lose the last seconds.
package historyfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

// The defaults of Options.
const (
	DefaultKeep     = 7 * 24 * time.Hour
	DefaultMaxBytes = 128 << 20
)

// minBytes is the smallest Options.MaxBytes: there must be room for some batches of holds,
// each with the longest names.
const minBytes = 32 << 20

// Options change what Open makes. The zero value of each is its default.
type Options struct {
	history.Options
	// Keep is how long a hold is kept after its end, if there is room.
	Keep time.Duration
	// MaxBytes is how large the file may get, at least 32 MiB. Its journal has some MiB
	// besides.
	MaxBytes int64
}

// Open opens the file, and makes it if it is missing. It refuses a file that others may read,
// that another server uses, that another program or another version has made, or that is damaged:
// it then changes nothing. The caller closes the Log.
func Open(ctx context.Context, path string, opts *Options) (*history.Log, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Keep, o.MaxBytes = cmp.Or(o.Keep, DefaultKeep), cmp.Or(o.MaxBytes, DefaultMaxBytes)
	switch {
	case path == "":
		return nil, errors.New("history: the file has no name")
	case o.Keep < 0:
		return nil, fmt.Errorf("history %s: holds would be kept for %v, which is negative", path, o.Keep)
	case o.MaxBytes < minBytes:
		return nil, fmt.Errorf("history %s: %d bytes are too few, want at least %d", path, o.MaxBytes, int64(minBytes))
	}
	s, err := open(ctx, path, o.Keep, o.MaxBytes)
	if err != nil {
		return nil, err
	}
	return history.New(ctx, s, &o.Options)
}
