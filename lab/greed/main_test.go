//go:build linux

package main

import (
	"os"
	"testing"
	"time"
)

// The greedy caller is this process again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-mode" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Whatever a caller sends as fast as it can, each renewal and each lock of another one is served,
// and each renewal of its own. How fast that is, make greed measures on a machine with nothing
// else to do.
func TestGreed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	p, err := prepare(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"auth", "open"} {
		for _, name := range attacks() {
			t.Run(way+"/"+name, func(t *testing.T) {
				r, err := p.against(way, name, 200*time.Millisecond)
				if err != nil || r.other.failed > 0 || r.own.failed > 0 || r.other.busy > 0 || r.tried == 0 || r.memory > mostMemory {
					t.Errorf("%+v, error %v", r, err)
				}
			})
		}
	}
}
