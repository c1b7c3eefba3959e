// Package cli is the command holdfast as a function, so that a program can add its
// own stores to it:
//
//	package main
//
//	import (
//		_ "example.com/natslock" // registers nats: URLs
//
//		"github.com/holdfast-go/holdfast/cmd/holdfast/cli"
//	)
//
//	func main() { cli.Main() }
//
// Each command has a file here, with its flags, its help and its exit statuses.
// What a command does is in the packages of cmd/holdfast/internal:
//
//	location   where the locks are kept
//	acquire    waiting for a lock, and saying who holds it
//	job        running a command under a lock: signals, Ctrl-Z, loss of the lock
//	guard      the process that ends the command when its time is up
//	terminal   handing the terminal to the command, as a shell does
//	statuscmd  showing the holds, once or again and again (status), and why somebody waits
//	historycmd showing what became of holds (history)
//	fitness    checking whether a store is fit to lock on
//	serve      running the server: its listeners, signals, start and end
//	meters     the metrics of the server
//	collect    what lists of a store yield, as slices
//	output     printing text, tables and JSON
//	exit       exit statuses, and the errors that lead to them
//	env        flags as environment variables, and what run sets for its command
//	span       durations as users of a shell write them
//	secret     keeping passwords out of all of that
//	limits     refusing limits of this process with which it cannot work
//	process    signals of this process
//	proc       other processes, on Linux
package cli

import (
	"os"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
	_ "github.com/holdfast-go/holdfast/cmd/holdfast/internal/limits" // before all others
)

// Main runs the command line of this process and exits with its status. It does
// not return.
//
// The program starts itself again as the guard of the commands that it
// runs. Init functions of the packages that it imports may run there, too.
func Main() {
	logging.Disable() // go-redis also writes its errors to stderr
	if job.IsSuccessor(os.Args) {
		if job.Inherit(os.Stdin) != nil {
			os.Exit(exit.Failed)
		}
		os.Exit(0)
	}
	os.Exit(execute(os.Args[1:]))
}
