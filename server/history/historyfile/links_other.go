//go:build !unix

package historyfile

import "io/fs"

// names returns 1: the system does not say how many names a file has.
func names(fs.FileInfo) uint64 { return 1 }
