package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// client is a caller of the server.
type client struct{ addr, token string }

var transport = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

// do sends a request and returns the status and the body of the answer.
func (c client) do(method, path string, body []byte) (int, []byte, error) {
	r, err := http.NewRequest(method, "http://"+c.addr+path, bytes.NewReader(body)) //nolint:noctx // the process ends it
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", wire.JSON)
	r.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := transport.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

func (c client) post(path string, q, answer any) error {
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

func (c client) acquire(resource string) (g wire.Grant, err error) {
	return g, c.post(wire.AcquirePath, wire.AcquireRequest{Resource: resource, HoldID: driver.NewHoldID(), TTLMs: 60_000}, &g)
}

func (c client) release(g wire.Grant) error {
	ref := wire.Ref{Resource: g.Resource, LockID: g.LockID, HoldID: g.HoldID, Token: g.Token}
	return c.post(wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: ref}}}, new(wire.ReleaseAnswer))
}

// open begins a request on a connection of its own.
func (c client) open(head string) (net.Conn, error) {
	conn, err := net.Dial("tcp", c.addr) //nolint:noctx // the process ends it
	if err == nil {
		_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n", head, c.addr, c.token)
	}
	return conn, err
}

// greedy are the attacks: what each of many connections does again and again.
var greedy = map[string]func(c client, worker int){
	"denies": func(c client, i int) { denies(c, i, manyDenied) },
	"sly":    func(c client, i int) { denies(c, i, someDenied) },
	"pages":  func(c client, _ int) { _, _, _ = c.do(http.MethodGet, "/", nil) },
	"queries": func(c client, i int) {
		_, _, _ = c.do(http.MethodGet, fmt.Sprintf("/?q=%d-%d", i, time.Now().UnixNano()), nil)
	},
	"lists":   lists,
	"bodies":  bodies,
	"streams": streams,
}

func attacks() []string { return slices.Sorted(maps.Keys(greedy)) }

// attack attacks until the process ends.
func attack(name, addr, token string) {
	for i := range connections {
		go func() {
			for {
				greedy[name](client{addr, token}, i)
			}
		}()
	}
	select {}
}

// denied is a batch of what the caller may not do, with names that are long in JSON.
func denied(n int) []byte {
	q := wire.RenewRequest{}
	for range n {
		q.Holds = append(q.Holds, wire.Renewal{Ref: wire.Ref{Resource: strings.Repeat("\u2028", 160), HoldID: driver.NewHoldID()}})
	}
	text, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	return text
}

// A batch of some is as large as one may be of which the server does not expect much.
var manyDenied, someDenied = denied(1000), denied(15)

// denies has a hold, so that the server must read what it sends.
func denies(c client, i int, batch []byte) {
	_, _ = c.acquire(fmt.Sprint("small/", i))
	for range 1000 {
		_, _, _ = c.do(http.MethodPost, wire.RenewPath, batch)
	}
}

// lists begins a list that it does not read.
func lists(c client, _ int) {
	conn, err := c.open("GET /v1/holds")
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "Accept: application/x-ndjson\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.ReadFull(conn, make([]byte, 20)); err == nil {
		time.Sleep(2 * time.Second)
	}
}

// bodies begins many large bodies.
func bodies(c client, _ int) {
	var conns []net.Conn
	for range 80 {
		conn, err := c.open("POST /v1/renew")
		if err != nil {
			break
		}
		conns = append(conns, conn)
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = fmt.Fprintf(conn, "Content-Length: %d\r\n\r\n%s", 16<<20, strings.Repeat(" ", 255<<10))
	}
	time.Sleep(3 * time.Second)
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// streams opens live pages.
func streams(c client, _ int) {
	conn, err := c.open("GET /events")
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.ReadFull(conn, make([]byte, 12)); err == nil {
		time.Sleep(100 * time.Millisecond)
	}
}
