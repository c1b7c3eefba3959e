package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/front"
)

// childEnv makes the test binary a server, in a process of its own so that what its callers
// need is not counted.
const childEnv = "HOLDFAST_TEST_SERVER"

// serveAsChild serves until standard input ends. It prints its address first, and its
// resident memory in KiB, after a collection, for each line that it reads.
func serveAsChild() {
	store := memlock.New(nil)
	s, err := server.New(store, nil)
	if err != nil {
		panic(err)
	}
	if err := s.WaitReady(context.Background()); err != nil {
		panic(err)
	}
	hold := driver.AcquireRequest{Resource: "r", LockID: "holder", HoldID: driver.NewHoldID(), TTL: time.Hour}
	for i := range 10_001 {
		if _, err := store.Acquire(context.Background(), hold); err != nil {
			panic(err)
		}
		hold.Resource = fmt.Sprint("r", i)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	h := front.Server(s, nil)
	go func() { _ = h.Serve(listener) }()
	fmt.Println(listener.Addr())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		debug.FreeOSMemory()
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			panic(err)
		}
		for line := range strings.Lines(string(status)) {
			if rss, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				fmt.Println(strings.Fields(rss)[0])
			}
		}
	}
	_ = h.Close()
	_ = s.Close()
}

// BenchmarkWaits opens 10,000 waits over HTTP/1.1 and reports the memory of the server:
//
//	go test -run '^$' -bench Waits -benchtime 1x .
func BenchmarkWaits(b *testing.B) {
	const n = 10_000
	for name, resource := range map[string]func(int) string{
		"one resource": func(int) string { return "r" }, "10,000 resources": func(i int) string { return fmt.Sprint("r", i) },
	} {
		for _, fair := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/fair=%v", name, fair), func(b *testing.B) {
				for b.Loop() {
					before, after := memoryOfWaits(b, n, resource, fair)
					b.ReportMetric(float64(after)/1024, "MiB-RSS")
					b.ReportMetric(float64(after-before)/n, "KiB/wait")
				}
			})
		}
	}
}

func memoryOfWaits(b *testing.B, n int, resource func(int) string, fair bool) (before, after int) {
	child := exec.CommandContext(b.Context(), os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1")
	in, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = child.Wait() }()
	replies := bufio.NewReader(out)
	var address string
	if _, err := fmt.Fscanln(replies, &address); err != nil {
		b.Fatal(err)
	}
	memory := func() (kib int) {
		fmt.Fprintln(in)
		if _, err := fmt.Fscanln(replies, &kib); err != nil {
			b.Fatal(err)
		}
		return kib
	}
	before = memory()
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range n {
		conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
		if err != nil {
			b.Skip("cannot open so many connections: ", err)
		}
		conns = append(conns, conn)
		body := fmt.Sprintf(`{"resource":%q,"holdId":%q,"waitMs":25000,"fair":%v,"owner":"somebody","host":"somewhere"}`, resource(i), driver.NewHoldID(), fair)
		_, err = io.WriteString(conn, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: server\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			wire.AcquirePath, len(body), body))
		if err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second) // all have arrived, and those that may have places
	return before, memory()
}
