// Package strange has servers that are none, and looks for secrets in what is said
// about them.
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

// Closed is the address of a server that closes each connection at once.
func Closed(t testing.TB) string {
	t.Helper()
	return Server(t, func(net.Conn) {})
}

// HTTP is that of one that speaks another protocol.
func HTTP(t testing.TB) string {
	t.Helper()
	return Server(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
}

// Echo is that of one that says what it hears.
func Echo(t testing.TB) string {
	t.Helper()
	return Server(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

// Refuses wants that a store cannot be opened, and that neither the error, which it
// returns, nor the log has any of the secrets.
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

// Server is a server of no protocol: answer gets each connection, which is closed
// then. It ends with the test.
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

// Hides wants that the text has none of the secrets, however escaped.
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
