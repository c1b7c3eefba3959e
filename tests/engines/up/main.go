// Command up starts the servers that the tests use, for work by hand, and ends
// them on Ctrl-C. It prints what a shell needs so that tests use them too.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/tests/engines"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := engines.Run(ctx, func(name, variable string, e engines.Engine) {
		what := name
		if e.Emulated {
			what += ", an emulator; its data are in memory"
		}
		fmt.Printf("export %s='%s'  # %s\n", variable, e.URL, what)
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}
