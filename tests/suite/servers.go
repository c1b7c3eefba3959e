package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/tests/internal/modules"
)

// export is a line of what starts the servers.
var export = regexp.MustCompile(`^export (\w+)='([^']*)'`)

// startServers starts those servers that tests need, once for all modules, and sets
// the variables by which tests find them. stop ends them; so does the end of this
// process. If a server is not available, the tests try again themselves, and report
// it.
func startServers(ctx context.Context, root string) (stop func(), err error) {
	up := filepath.Join(root, ".cache", "engines", "up")
	dir := filepath.Join(root, "tests")
	if missing, err := missingDependencies(ctx, dir); missing != "" || err != nil {
		return func() {}, err
	}
	if _, err := modules.Output(ctx, dir, "go", "build", "-o", up, "./engines/up"); err != nil {
		return nil, err
	}
	cmd := modules.Command(ctx, dir, up, "-until-eof")
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		alive.Close()
		cmd.Wait() //nolint:errcheck // its servers are gone in any case
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if m := export.FindStringSubmatch(lines.Text()); m != nil {
			if err := os.Setenv(m[1], m[2]); err != nil {
				stop()
				return nil, err
			}
		}
		if strings.HasPrefix(lines.Text(), "#") {
			return stop, nil
		}
	}
	stop()
	return nil, errors.Join(lines.Err(), fmt.Errorf("%s ended too early", up))
}
