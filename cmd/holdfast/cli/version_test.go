package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	settings := func(pairs ...string) (settings []debug.BuildSetting) {
		for i := 0; i < len(pairs); i += 2 {
			settings = append(settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return settings
	}
	platform := " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	main := debug.Module{Path: "github.com/holdfast-go/holdfast/cmd/holdfast", Version: "v1.2.3"}
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"go install", debug.BuildInfo{Main: main}, "holdfast v1.2.3" + platform},
		{"a clone", debug.BuildInfo{Main: main, Settings: settings("vcs", "git", "vcs.revision", "4a5b", "vcs.time", "2026-01-02T03:04:05Z", "vcs.modified", "false")},
			"holdfast v1.2.3 revision 4a5b of 2026-01-02T03:04:05Z" + platform},
		{"a clone with changes", debug.BuildInfo{Main: main, Settings: settings("vcs.revision", "4a5b", "vcs.time", "2026-01-02T03:04:05Z", "vcs.modified", "true")},
			"holdfast v1.2.3 revision 4a5b of 2026-01-02T03:04:05Z (modified)" + platform},
		{"a program with more stores", debug.BuildInfo{Main: debug.Module{Path: "example.com/own", Version: "v7.0.0"}, Deps: []*debug.Module{&main}},
			"holdfast v1.2.3" + platform},
	} {
		if got := version(&c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
