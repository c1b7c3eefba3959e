// Command up starts the servers that the tests use, and ends them on Ctrl-C. It
// prints what a shell needs so that tests use them too, and a comment when it has
// started all. With -until-eof it also ends when its standard input does.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/tests/engines"
)

func main() {
	untilEOF := flag.Bool("until-eof", false, "end when standard input does")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if *untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it, too
			stop()
		}()
	}
	err := engines.Run(ctx, started, lacks, func() { fmt.Println("# these run until Ctrl-C") })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func started(variable string, e engines.Engine) {
	what := e.Kind
	if e.Emulated {
		what += ", an emulator; its data are in memory"
	}
	fmt.Printf("export %s='%s'  # %s\n", variable, e.URL, what)
}

func lacks(name string, why error) { fmt.Fprintf(os.Stderr, "engines: no %s: %v\n", name, why) }
