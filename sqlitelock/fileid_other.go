//go:build !unix

package sqlitelock

import (
	"io/fs"
	"os"
)

// identify returns the same ID for all files: this system neither deletes nor renames a
// file while SQLite has it open.
func identify(fs.FileInfo) (id fileID, links uint64) { return fileID{1, 1}, 1 }

// look returns the ID and the size of the file at a path, without following a link.
func look(path string) (id fileID, size int64, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileID{}, 0, err
	}
	id, _ = identify(info)
	return id, info.Size(), nil
}
