// Command holdfast runs commands under a lock, so that one runs at a time, and
// shows who holds what. It brings the locks of package holdfast to scripts,
// crontabs and every language.
//
// It knows how to run commands and how to talk to people; what a lock is and
// when one is lost is the package's affair. docs/cli.md describes its use.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // go-redis writes to stderr what its errors say, too
	os.Exit(execute(os.Args[1:]))
}
