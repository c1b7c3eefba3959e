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

	"github.com/holdfast-go/holdfast/tests/engines"
)

// starter makes this test binary start a server, say where it is, and hang.
const starter = "HOLDFAST_TEST_STARTER"

func TestServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	if os.Getenv(starter) != "" {
		os.Stdout.WriteString(engines.NewMongoServer(t).URL + "\n")
		select {}
	}
	engines.NewMongoServer(t).Stop() // skips where there is none
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
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
