package main

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// The processes of a measurement are this one again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-mode" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Whatever a caller sends as fast as it can, each renewal and each lock of another one is served,
// and each renewal of its own holds.
func TestGreed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	for _, name := range attacks() {
		for _, same := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/same=%v", name, same), func(t *testing.T) {
				_, f, err := against(name, time.Second, same)
				if err != nil || f.failed > 0 || !same && (f.busy > 0 || f.locks == 0) {
					t.Errorf("%+v, error %v", f, err)
				}
			})
		}
	}
}
