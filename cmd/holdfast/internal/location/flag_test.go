package location

import (
	"testing"
)

func TestFlagToCopy(t *testing.T) {
	for want, l := range map[string]Location{
		"":                                 {URL: "sqlite:///a.db", File: "/a.db", Unasked: true},
		" --store sqlite:///a.db":          {URL: "sqlite:///a.db?synchronous=full", File: "/a.db"},
		" --store sqlite:///it%27s%20a.db": {File: "/it's a.db"},
		" --store redis://host/0":          {URL: "redis://host/0"},
	} {
		if got := l.Flag(); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
	for _, url := range []string{"redis://user:secret@host/0", "postgres://host/db?password=secret"} {
		if got := (Location{URL: url}).Flag(); got != "" {
			t.Errorf("%s: %q", url, got)
		}
	}
}
