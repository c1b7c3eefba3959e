//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/lab/command"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// A store that hangs for 20 seconds, while callers send as much as they can, takes no lock from
// those who have time left, also if they are the same caller.
func TestStoreHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	program, err := command.Build(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("redis", func(t *testing.T) {
		redis := engines.NewRedis(t)
		hang(t, program, redis.URL, redis)
	})
	t.Run("postgres", func(t *testing.T) {
		postgres := engines.NewPostgres(t)
		hang(t, program, postgres.URL, postgres)
	})
}

func hang(t *testing.T, program, url string, engine interface {
	Freeze(t testing.TB)
	Thaw(t testing.TB)
}) {
	const (
		ttl   = time.Minute
		hangs = 20 * time.Second
	)
	server := engines.NewServe(t, program, url)
	store, err := httplock.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	client := holdfast.New(store, nil)
	defer client.Close()
	var holds []*holdfast.Hold
	for i := range 50 {
		hold, err := client.Lock(t.Context(), fmt.Sprint("kept/", i), &holdfast.LockOptions{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, hold)
	}
	for _, name := range []string{"acquires", "denies", "invented", "lists", "waits", "watches"} {
		attack(t, name, server.Address())
	}
	time.Sleep(2 * time.Second) // the callers have all their connections
	engine.Freeze(t)
	time.Sleep(hangs)
	engine.Thaw(t)
	thawed := time.Now()
	for _, hold := range holds {
		// It was renewed since, which is due within a third of the TTL.
		for hold.Left() <= ttl-hangs-time.Since(thawed) {
			select {
			case <-hold.Context().Done():
				t.Fatalf("%v after the store went on: %v", time.Since(thawed), context.Cause(hold.Context()))
			case <-time.After(10 * time.Millisecond):
			}
			if time.Since(thawed) > ttl {
				t.Fatalf("%s is not renewed: it has %v left", hold.Resource(), hold.Left())
			}
		}
	}
	t.Logf("all are renewed %v after the store went on", time.Since(thawed))
}

// attack starts an attack that ends with the test.
func attack(t *testing.T, name, addr string) {
	greedy := exec.Command("nice", "-n", "19", os.Args[0], "-mode", name, "open", addr, "", "") //nolint:noctx // its input ends it
	stdin, err := greedy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	greedy.Stdout, greedy.Stderr = io.Discard, os.Stderr
	if err := greedy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = greedy.Wait()
	})
}
