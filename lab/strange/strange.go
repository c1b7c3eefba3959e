// Package strange tests how a store treats a server that is not its own: servers that close
// each connection, speak another protocol or echo their input. It also checks that errors and
// logs do not contain secrets.
package strange

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/journal"
)

// Closed returns the address of a server that closes each connection at once.
func Closed(t testing.TB) string {
	t.Helper()
	return Server(t, func(net.Conn) {})
}

// HTTP returns the address of a server that speaks HTTP.
func HTTP(t testing.TB) string {
	t.Helper()
	return Server(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
}

// Echo returns the address of a server that sends back its input.
func Echo(t testing.TB) string {
	t.Helper()
	return Server(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

// Refuses fails the test if the store can be opened, or if the error or the log contains one of
// the secrets. It returns the error.
func Refuses(t testing.TB, storeURL string, secrets ...string) error {
	t.Helper()
	var log journal.Journal
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := holdfast.Open(ctx, storeURL, &holdfast.Options{Logger: log.Logger()})
	if err == nil {
		t.Fatal("opened", c.Close())
	}
	Hides(t, "the error", err.Error(), secrets...)
	Hides(t, "the log", log.String(), secrets...)
	return err
}

// Server starts a server that calls answer for each connection and then closes it. It ends with
// the test.
func Server(t testing.TB, answer func(net.Conn)) (address string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// Hides fails the test if the text contains one of the secrets, in any usual escaping.
func Hides(t testing.TB, what, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		for _, form := range []string{
			secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:],
			strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"), strings.ReplaceAll(secret, `"`, `\"`),
		} {
			if strings.Contains(text, form) {
				t.Errorf("%s repeats a secret as %s: %s", what, form, text)
			}
		}
	}
}
