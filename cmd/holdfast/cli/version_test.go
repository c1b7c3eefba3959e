package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	main := debug.Module{Path: "github.com/holdfast-go/holdfast/cmd/holdfast", Version: "v1.2.3"}
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"go install", debug.BuildInfo{Main: main}, "holdfast v1.2.3"},
		{"a program with more stores", debug.BuildInfo{Main: debug.Module{Path: "example.com/own", Version: "v7.0.0"}, Deps: []*debug.Module{&main}},
			"holdfast v1.2.3"},
	} {
		if got := version(&c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
