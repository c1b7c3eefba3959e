package engines_test

import (
	"bufio"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/engines"
)

// starter makes this test binary start a server, print its URL, and hang.
const starter = "HOLDFAST_TEST_STARTER"

func TestServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	for _, server := range []struct {
		kind  string
		start func(t *testing.T) (url string, stop func())
	}{
		{"mongodb", func(t *testing.T) (string, func()) { s := engines.NewMongoServer(t); return s.URL, s.Stop }},
		{"redis", func(t *testing.T) (string, func()) { s := engines.NewRedis(t); return s.URL, s.Stop }},
		{"postgres", func(t *testing.T) (string, func()) { s := engines.NewPostgres(t); return s.URL, s.Stop }},
	} {
		t.Run(server.kind, func(t *testing.T) {
			if os.Getenv(starter) != "" {
				address, _ := server.start(t)
				os.Stdout.WriteString(address + "\n")
				select {}
			}
			_, stop := server.start(t) // skips the test without a server
			stop()
			endsWithStarter(t, "^TestServerEndsWithTheProcessThatStartedIt$/^"+server.kind+"$")
		})
	}
}

func endsWithStarter(t *testing.T, test string) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+test)
	cmd.Env = append(os.Environ(), starter+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if killed := cmd.Process.Kill(); err != nil || killed != nil {
		t.Fatal(err, killed)
	}
	cmd.Wait() //nolint:errcheck // killed
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	for deadline := time.Now().Add(30 * time.Second); ; {
		conn, err := d.DialContext(t.Context(), "tcp", u.Host)
		if err != nil {
			return
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server outlives by 30 s the process that started it")
		}
	}
}
