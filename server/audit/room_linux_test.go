package audit

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Room for what is done by force is there before the first event, also in the next file.
func TestKeepsRoomFromTheBeginning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := open(t, path)
	mustHaveRoom := func() {
		t.Helper()
		var is syscall.Stat_t
		check(t, syscall.Stat(path, &is))
		if is.Size != 0 || is.Blocks*512 < kept {
			t.Errorf("%d bytes have %d blocks", is.Size, is.Blocks)
		}
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	check(t, err)
	defer file.Close()
	if err := syscall.Fallocate(int(file.Fd()), keepSize, 0, 1); err != nil {
		t.Skip("the file system keeps no room:", err)
	}
	mustHaveRoom()
	check(t, os.Rename(path, path+".old"))
	check(t, l.Reopen())
	mustHaveRoom()
}
