// Command up starts the servers that tests use, for work by hand (make engines). It prints the
// shell commands that make tests use them too, and ends the servers on Ctrl-C.
//
// With -ask it starts a server only when a test asks for it. It prints the value of
// HOLDFAST_TEST_ENGINES with which tests do so, and ends when its standard input ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-go/holdfast/lab/engines"
)

func main() {
	ask := flag.Bool("ask", false, "start what tests ask for, until standard input ends")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run := all
	if *ask {
		run = asked
	}
	err := run(ctx)
	stop()
	engines.End()
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func all(ctx context.Context) error {
	if err := engines.StartAll(ctx, started, lacks); err != nil {
		return err
	}
	fmt.Println("# these run until Ctrl-C")
	<-ctx.Done()
	return nil
}

func asked(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it too
		end()
	}()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, engines.Handler()) }() //nolint:gosec // only tests send requests, and some wait for minutes
	fmt.Printf("http://%s/\n", listener.Addr())
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
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
