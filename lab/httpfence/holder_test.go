package httpfence

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	_ "github.com/holdfast-go/holdfast/sqlitelock" // registers URLs of the scheme sqlite
)

// holderEnv is the environment variable with the holderConfig, in JSON, that makes the test
// binary a holder.
const holderEnv = "HOLDFAST_HTTPFENCE_HOLDER"

// holderConfig configures a holder. Store and Service are URLs.
type holderConfig struct {
	Store   string
	Service string
	TTL     time.Duration
	// NoKeepAlive stops renewals: a process that is stopped in the middle of a change of the
	// store would block the whole file.
	NoKeepAlive bool
}

// holder is a program that works under the lock. Each line of its input is a command, and it
// prints the result. It is as careless as possible: its requests go on after the lock is lost.
func holder(config string) int {
	var c holderConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fail(err)
	}
	ctx := context.Background()
	client, err := holdfast.Open(ctx, c.Store, &holdfast.Options{TTL: c.TTL, NoSweep: true})
	if err != nil {
		return fail(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	goOn := func(what string) { // after the test says so
		fmt.Println(what)
		lines.Scan()
	}
	var hold *holdfast.Hold
	var before func()
	transport, err := httpfence.NewTransport(&httpfence.TransportOptions{
		Origins: []string{c.Service},
		Hold:    func(*http.Request) *holdfast.Hold { return hold },
		Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			if before != nil {
				before()
			}
			return http.DefaultTransport.RoundTrip(r)
		}),
	})
	if err != nil {
		return fail(err)
	}
	web := &http.Client{Transport: transport}
	ask := func(body io.Reader) string {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Service, body)
		if err != nil {
			return err.Error()
		}
		resp, err := web.Do(r)
		if errors.Is(err, holdfast.ErrStale) {
			return "stale"
		}
		if err != nil {
			return "failed"
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return "failed"
		}
		return string(text)
	}
	for lines.Scan() {
		verb, value, _ := strings.Cut(lines.Text(), " ")
		before = nil
		switch verb {
		case "lock":
			if hold, err = client.Lock(ctx, resource, &holdfast.LockOptions{NoKeepAlive: c.NoKeepAlive}); err != nil {
				return fail(err)
			}
			fmt.Println("locked")
		case "read":
			fmt.Println(ask(nil))
		case "write":
			fmt.Println(ask(strings.NewReader(value)))
		case "late": // stopped after all checks, before it sends the first byte
			before = func() { goOn("sending") }
			fmt.Println(ask(strings.NewReader(value)))
		case "half": // stopped in the middle of the body
			in, out := io.Pipe()
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				defer out.Close()
				if _, err := io.WriteString(out, value[:1]); err != nil {
					return
				}
				goOn("sending")
				_, _ = io.WriteString(out, value[1:]) // the server may have answered already
			}()
			outcome := ask(in)
			<-sent
			fmt.Println(outcome)
		}
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
