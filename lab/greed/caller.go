//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// caller is a caller of the server.
type caller struct {
	way, addr, socket, token string
	http                     *http.Client
	tried                    atomic.Int64 // requests
}

func newCaller(way, addr, socket, token string) *caller {
	c := &caller{way: way, addr: addr, socket: socket, token: token}
	dial := func(context.Context, string, string) (net.Conn, error) { return c.dial("http/1.1") }
	c.http = &http.Client{Transport: &http.Transport{DialContext: dial, DialTLSContext: dial, MaxIdleConnsPerHost: 10_000}}
	return c
}

// dial returns a connection of its own. With TLS it speaks the protocol.
func (c *caller) dial(protocol string) (net.Conn, error) {
	network, addr := "tcp", c.addr
	if c.socket != "" {
		network, addr = "unix", c.socket
	}
	conn, err := net.Dial(network, addr) //nolint:noctx // the process ends it
	if err != nil || c.way != "auth" {
		return conn, err
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}), nil //nolint:gosec // it is loopback
}

func (c *caller) host() string {
	if c.socket != "" {
		return "localhost"
	}
	return c.addr
}

// open begins a request on a connection of its own.
func (c *caller) open(head string) (net.Conn, error) {
	c.tried.Add(1)
	conn, err := c.dial("http/1.1")
	if err == nil {
		_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n", head, c.host(), c.token)
	}
	return conn, err
}

// do sends a request and returns the status and the body of the answer.
func (c *caller) do(method, path string, body []byte) (int, []byte, error) {
	c.tried.Add(1)
	scheme := "http"
	if c.way == "auth" {
		scheme = "https"
	}
	r, err := http.NewRequest(method, scheme+"://"+c.host()+path, bytes.NewReader(body)) //nolint:noctx // the process ends it
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", wire.JSON)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

func (c *caller) get(path string) { _, _, _ = c.do(http.MethodGet, path, nil) }

func (c *caller) post(path string, q, answer any) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	status, text, err := c.do(http.MethodPost, path, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%d %s", status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

func (c *caller) acquire(resource string) (wire.Grant, error) {
	return c.ask(wire.AcquireRequest{Resource: resource, TTLMs: 60_000})
}

func (c *caller) ask(q wire.AcquireRequest) (g wire.Grant, err error) {
	q.HoldID = driver.NewHoldID()
	return g, c.post(wire.AcquirePath, q, &g)
}

func (c *caller) release(g wire.Grant) error {
	ref := wire.Ref{Resource: g.Resource, LockID: g.LockID, HoldID: g.HoldID, Token: g.Token}
	return c.post(wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: ref}}}, new(wire.ReleaseAnswer))
}

func (c *caller) renew(refs []wire.Renewal) error {
	var a wire.RenewAnswer
	err := c.post(wire.RenewPath, wire.RenewRequest{Holds: refs}, &a)
	if err == nil && slices.ContainsFunc(a.Results, func(r wire.RenewResult) bool { return r.Outcome != wire.Renewed }) {
		err = errOutcome
	}
	return err
}
