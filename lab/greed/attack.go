//go:build linux

package main

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// greedy is an attack: what each of that many workers does again and again.
type greedy struct {
	workers int
	do      func(c *caller, worker int)
	// within: the caller may do so, and has an equal part of the server for each connection. Of
	// others it only counts that nothing fails.
	within bool
}

var all = map[string]greedy{
	"acquires":  {64, acquires, true},
	"bodies":    {64, bodies, false},
	"denies":    {2000, func(c *caller, _ int) { c.send(wire.RenewPath, manyDenied) }, false},
	"filters":   {64, func(c *caller, _ int) { c.get(wire.HoldsPath + "?owner=nobody") }, false},
	"forces":    {64, forces, false},
	"handshake": {64, handshakes, false},
	"headers":   {64, headers, false},
	"history":   {64, fillHistory, true},
	"idle":      {64, idle, false},
	"invented":  {500, func(c *caller, _ int) { c.send(wire.RenewPath, invented()) }, false},
	"lists":     {500, lists, false},
	"lockids":   {64, func(c *caller, _ int) { c.get(wire.HoldsPath + "?lockId=nobody") }, false},
	"open":      {64, func(c *caller, _ int) { c.get("/openapi.yaml") }, false},
	"pages":     {500, func(c *caller, _ int) { c.get("/") }, false},
	"past":      {64, func(c *caller, _ int) { c.get(wire.HistoryPath + "?resource=small/kept-1") }, false},
	"queries":   {500, func(c *caller, i int) { c.get(fmt.Sprintf("/?q=%d-%d", i, time.Now().UnixNano())) }, false},
	"resets":    {64, resets, false},
	"resource":  {500, func(c *caller, i int) { c.get(fmt.Sprintf("/resource?name=held%%2F%d", i)) }, false},
	"sly":       {500, func(c *caller, _ int) { c.send(wire.RenewPath, someDenied) }, false},
	"strangers": {64, strangers, false},
	"streams":   {500, streams, false},
	"trickle":   {64, trickle, false},
	"tunnels":   {64, tunnels, false},
	"unread":    {500, unread, false},
	"waits":     {2000, waits, true},
	"watches":   {2000, watches, false},
	"wrong":     {64, func(c *caller, _ int) { c.get("/nothing") }, false},
}

func attacks() []string { return slices.Sorted(maps.Keys(all)) }

// beGreedy attacks until its input ends, and prints how often it has tried.
func beGreedy(name string, args []string) {
	way, addr, socket, token := args[0], args[1], args[2], args[3]
	switch way {
	case "open":
		socket = ""
	case "socket":
		if err := syscall.Setuid(nobody); err != nil {
			panic(err)
		}
	}
	c := newCaller(way, addr, socket, token)
	for i := range all[name].workers {
		go func() {
			for {
				all[name].do(c, i)
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(c.tried.Load())
	os.Exit(0)
}

func (c *caller) send(path string, body []byte) { _, _, _ = c.do(http.MethodPost, path, body) }

// batch is one of renewals of the resources.
func batch(n int, resource string) []byte {
	q := wire.RenewRequest{}
	for range n {
		q.Holds = append(q.Holds, wire.Renewal{Ref: wire.Ref{Resource: resource, HoldID: driver.NewHoldID(), Token: 1}})
	}
	text, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	return text
}

// What the caller may not do, with names that are long in JSON. A batch of some is as large as
// one may be of which the server does not expect much.
var long = strings.Repeat("\u2028", 160)
var manyDenied, someDenied = batch(1000, long), batch(15, long)

func invented() []byte { return batch(1000, "small/invented") }

// acquires holds one lock after another.
func acquires(c *caller, i int) {
	if g, err := c.acquire(fmt.Sprint("small/", i)); err == nil {
		_ = c.release(g)
	}
}

// fillHistory does so with texts that are as long as they may be.
func fillHistory(c *caller, i int) {
	g, err := c.ask(wire.AcquireRequest{Resource: fmt.Sprint("small/", strings.Repeat("n", 900), i), TTLMs: 60_000, Owner: strings.Repeat("o", 200), Comment: strings.Repeat("c", 900)})
	if err == nil {
		_ = c.release(g)
	}
}

// forces ends what it may not.
func forces(c *caller, _ int) {
	q := wire.ForceRequest{Ref: wire.Ref{Resource: long, HoldID: driver.NewHoldID(), Token: 1}, Reason: strings.Repeat("r", 900)}
	_ = c.post(wire.ForceReleasePath, q, new(wire.ReleaseResult))
}

// waits waits for what another worker has.
func waits(c *caller, i int) {
	_, _ = c.ask(wire.AcquireRequest{Resource: fmt.Sprint("small/wait-", i%4), TTLMs: 60_000, WaitMs: 2000, Fair: i%2 == 0})
}

// read reads n bytes of the answer, for as long as that may take, and then nothing more of it.
func read(conn net.Conn, n int, most, then time.Duration) {
	_ = conn.SetReadDeadline(time.Now().Add(most))
	if _, err := io.ReadFull(conn, make([]byte, n)); err == nil {
		time.Sleep(then)
	}
}

// begin begins a request on a connection, and does something with it.
func (c *caller) begin(head string, then func(net.Conn)) {
	conn, err := c.open(head)
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return
	}
	defer conn.Close()
	then(conn)
}

// lists begins a list that it does not read.
func lists(c *caller, _ int) {
	c.begin("GET /v1/holds", func(conn net.Conn) {
		_, _ = io.WriteString(conn, "Accept: application/x-ndjson\r\n\r\n")
		read(conn, 20, 2*time.Second, 2*time.Second)
	})
}

// unread asks for many pages, and reads none.
func unread(c *caller, _ int) {
	c.begin("GET /", func(conn net.Conn) {
		_, _ = io.WriteString(conn, "\r\n"+strings.Repeat("GET / HTTP/1.1\r\nHost: "+c.host()+"\r\nAuthorization: Bearer "+c.token+"\r\n\r\n", 50))
		time.Sleep(2 * time.Second)
	})
}

// streams opens live pages, and watches opens watches.
func streams(c *caller, _ int) {
	c.begin("GET /events", func(conn net.Conn) {
		_, _ = io.WriteString(conn, "\r\n")
		read(conn, 12, 2*time.Second, 100*time.Millisecond)
	})
}

func watches(c *caller, i int) {
	c.begin(fmt.Sprint("GET /v1/watch?resource=small/kept-", i%20), func(conn net.Conn) {
		_, _ = io.WriteString(conn, "\r\n")
		read(conn, 12, 2*time.Second, 2*time.Second)
	})
}

// many has that many connections at a time, each with what begin writes, for some seconds.
func many(c *caller, n int, begin func(net.Conn)) {
	var conns []net.Conn
	for range n {
		c.tried.Add(1)
		conn, err := c.dial("http/1.1")
		if err != nil {
			break
		}
		conns = append(conns, conn)
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		begin(conn)
	}
	time.Sleep(3 * time.Second)
	for _, conn := range conns {
		_ = conn.Close()
	}
}

func (c *caller) head(conn net.Conn, head, more string) {
	_, _ = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s", head, c.host(), c.token, more)
}

// bodies begins many large bodies.
func bodies(c *caller, _ int) {
	rest := fmt.Sprintf("Content-Length: %d\r\n\r\n{\"holds\":[%s", 16<<20, strings.Repeat(" ", 255<<10))
	many(c, 80, func(conn net.Conn) { c.head(conn, "POST /v1/renew", rest) })
}

// trickle begins many small ones, of which as much is free as there is.
func trickle(c *caller, _ int) {
	many(c, 80, func(conn net.Conn) {
		c.head(conn, "POST /v1/renew", "Content-Length: 4000\r\n\r\n"+strings.Repeat(" ", 3999))
	})
}

// headers begins many large headers.
func headers(c *caller, _ int) {
	many(c, 80, func(conn net.Conn) { c.head(conn, "GET /", "X-Long: "+strings.Repeat("x", 63<<10)) })
}

// idle has connections after a request.
func idle(c *caller, _ int) {
	many(c, 80, func(conn net.Conn) {
		c.head(conn, "GET /healthz", "\r\n")
		read(conn, 12, time.Second, 0)
	})
}

// handshakes connects, and does no more than that.
func handshakes(c *caller, _ int) {
	c.tried.Add(1)
	conn, err := c.dial("http/1.1")
	if err != nil {
		return
	}
	defer conn.Close()
	if t, ok := conn.(*tls.Conn); ok {
		_ = t.Handshake() //nolint:noctx // the process ends it
	}
}

// strangers says that it is somebody whom nobody knows.
func strangers(c *caller, i int) {
	s := newCaller(c.way, c.addr, c.socket, "hft_"+strings.Repeat("A", 43))
	for range 100 {
		c.tried.Add(1)
		s.send(wire.AcquirePath, []byte("{}"))
	}
	s.http.CloseIdleConnections()
}

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) []byte {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...)
}

// streamed has a connection of HTTP/2, and sends each request for the path after another one.
func streamed(c *caller, path string, after func(stream uint32) []byte) {
	if c.way != "auth" { // without TLS there is none
		c.get("/healthz")
		return
	}
	conn, err := c.dial("h2")
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	field := func(name, value string) string { return name + string(rune(len(value))) + value }
	bearer := "Bearer " + c.token
	headers := "\x82\x87" + field("\x04", path) + field("\x01", c.addr) + field("\x0f\x08", bearer)
	out := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(4, 0, 0, "")...)
	for stream := uint32(1); ; stream += 2 {
		c.tried.Add(1)
		out = append(append(out, frame(1, 5, stream, headers)...), after(stream)...)
		if len(out) < 4<<10 {
			continue
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}

// resets takes back each request at once.
func resets(c *caller, _ int) {
	streamed(c, "/", func(stream uint32) []byte { return frame(3, 0, stream, "\x00\x00\x00\x08") })
}

// tunnels has as many requests on each connection as there may be.
func tunnels(c *caller, _ int) {
	n := 0
	streamed(c, "/v1/watch?resource=small/kept-1", func(uint32) []byte {
		if n++; n%200 == 0 {
			time.Sleep(time.Second)
		}
		return nil
	})
}
