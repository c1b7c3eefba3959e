package hosts_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/hosts"
)

// TestMain is also the program that runs on a host: it connects to the address in an
// environment variable and prints what it reads.
func TestMain(m *testing.M) {
	if address := os.Getenv("HOLDFAST_DIAL"); address != "" {
		os.Exit(read(address))
	}
	os.Exit(m.Run())
}

func read(address string) (status int) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 3
	}
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return 4
	}
	return 0
}

func TestDrop(t *testing.T) {
	n, err := hosts.New(t, "server", "one", "two")
	if err != nil {
		t.Skip(err)
	}
	server, one, two := n.Host("server"), n.Host("one"), n.Host("two")
	l, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			conn.Close()
			accepted <- conn
		}
	}()
	reach := func(from *hosts.Host) bool {
		t.Helper()
		words := from.Command(os.Args[0])
		command := exec.CommandContext(t.Context(), words[0], words[1:]...)
		command.Env = append(os.Environ(), "HOLDFAST_DIAL="+l.Addr().String())
		out, err := command.Output()
		var exit *exec.ExitError
		if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) {
			t.Fatal(err)
		}
		return string(out) == "hello"
	}
	check := func(what string, wantOne, wantTwo bool) {
		t.Helper()
		if got := reach(one); got != wantOne {
			t.Errorf("%s: the first host reaches the server: %t", what, got)
		}
		if got := reach(two); got != wantTwo {
			t.Errorf("%s: the second host reaches the server: %t", what, got)
		}
	}
	set := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("at first", true, true)
	set(n.Drop(server, one))
	check("answers to the first dropped", false, true)
	set(n.Pass(server, one))
	set(n.Drop(two, server))
	check("requests of the second dropped", true, false)
	set(n.Pass(two, server))
	check("in the end", true, true)
}
