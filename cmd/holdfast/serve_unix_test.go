package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// asker is the program ask of scripts, which needs no curl: ask URL PATH [BODY] sends a
// request to a server, a POST if there is a body, and prints the status and the answer. The
// URL may be one of a Unix socket. TOKEN is the caller's token, HOST another name of the
// server, and ACCEPT what is wanted.
func asker() {
	if err := ask(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "ask:", err)
		os.Exit(1)
	}
}

func ask(base, path string, body []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{}}
	if socket, ok := strings.CutPrefix(base, "unix://"); ok {
		base = "http://localhost"
		client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}
	}
	method := http.MethodGet
	if len(body) > 0 {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(strings.Join(body, "")))
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if token := os.Getenv("TOKEN"); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if accept := os.Getenv("ACCEPT"); accept != "" {
		r.Header.Set("Accept", accept)
	}
	if host := os.Getenv("HOST"); host != "" {
		r.Host = host
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	fmt.Println(answer.StatusCode)
	_, err = io.Copy(os.Stdout, answer.Body)
	fmt.Println()
	return err
}

var listens = regexp.MustCompile(`listening on (\S+), where|"url":"([^"]+)"`)

// served NAME waits until the server is ready. $URL is then its first address, $URL2 its
// second one.
func served(ts *testscript.TestScript, _ bool, args []string) {
	p := named(ts, args[0])
	var text string
	until(ts, args[0]+" is not ready", func() bool {
		text = ts.ReadFile(p.stderr.Name())
		select {
		case <-p.done:
			ts.Fatalf("the server has ended: %s", text)
		default:
		}
		return strings.Contains(text, "holdfast: ready\n") || strings.Contains(text, `"event":"ready"`)
	})
	for i, m := range listens.FindAllStringSubmatch(text, -1) {
		name := "URL"
		if i > 0 {
			name = fmt.Sprint("URL", i+1)
		}
		ts.Setenv(name, m[1]+m[2])
	}
}

// value NAME PATTERN sets $NAME to what the first group of the pattern matches in stdout.
func value(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("stdout does not match %s: %s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}
