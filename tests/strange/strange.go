// Package strange has servers that are none, and looks for secrets in what is said
// about them.
package strange

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

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
