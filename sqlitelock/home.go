package sqlitelock

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
)

// home returns the home folder of the user that this process runs as: $HOME, or without
// it the folder in the system's database of users, for services without variables. If a
// root process has a $HOME of another user, as sudo may leave it, home ignores it: root
// would use another file than without sudo, and create files there that the other user
// cannot open.
func home() (string, error) {
	folder, err := os.UserHomeDir()
	if err == nil && filepath.IsAbs(folder) && !ownedByOther(folder) {
		return folder, nil
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", errors.New("this user has no home folder")
}
