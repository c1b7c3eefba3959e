// Package hanging has a test that does not end.
package hanging

import (
	"os"
	"os/signal"
	"strconv"
	"testing"
)

func TestHangs(t *testing.T) {
	if os.Getenv("DEAF") != "" {
		signal.Ignore(os.Interrupt)
	}
	file := os.Getenv("HANGING")
	if err := os.WriteFile(file+".tmp", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		t.Fatal(err)
	}
	select {}
}
