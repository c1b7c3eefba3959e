package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	moment := time.Date(2026, 11, 24, 13, 0, 0, 123_456_789, time.FixedZone("", 3600))
	for name, c := range map[string]struct {
		event Event
		want  string
	}{
		"all members": {
			Event{moment, "billing", "192.0.2.1", "force-release", "größe/☃", "0a1b2c3d", 7, "released", `it "hangs"`, 2, 3, 0},
			`{"time":"2026-11-24T12:00:00.123Z","caller":"billing","address":"192.0.2.1","action":"force-release","resource":"größe/☃","ref":"0a1b2c3d","token":7,"outcome":"released","reason":"it \"hangs\"","items":2,"omitted":3}`,
		},
		"few members":    {Event{Time: moment, Action: "login"}, `{"time":"2026-11-24T12:00:00.123Z","action":"login"}`},
		"a line end":     {Event{Time: moment, Action: "a", Resource: "r\r\n{\"time\":\"…\"}"}, `{"time":"2026-11-24T12:00:00.123Z","action":"a","resource":"r\r\n{\"time\":\"…\"}"}`},
		"escapes":        {Event{Time: moment, Action: "a", Resource: "\x1b[2J\x1b]0;title\a\x7f\u009b31m\u0085"}, `{"time":"2026-11-24T12:00:00.123Z","action":"a","resource":"\u001b[2J\u001b]0;title\u0007\u007f\u009b31m\u0085"}`},
		"bidi marks":     {Event{Time: moment, Action: "a", Resource: "\u202egpj.exe\u2066\u200f\u061c"}, `{"time":"2026-11-24T12:00:00.123Z","action":"a","resource":"\u202egpj.exe\u2066\u200f\u061c"}`},
		"what is unseen": {Event{Time: moment, Action: "a", Resource: "a\u200bb\ufeffc\u00a0d\u2028e\U000e0041"}, `{"time":"2026-11-24T12:00:00.123Z","action":"a","resource":"a\u200bb\ufeffc\u00a0d\u2028e\udb40\udc41"}`},
		"beyond 16 bits": {Event{Time: moment, Action: "a", Resource: "😀"}, `{"time":"2026-11-24T12:00:00.123Z","action":"a","resource":"😀"}`},
		"markup":         {Event{Time: moment, Action: "a", Resource: "<img onerror=x>"}, `{"time":"2026-11-24T12:00:00.123Z","action":"a","resource":"\u003cimg onerror=x\u003e"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(appendLine(nil, c.event)); got != c.want+"\n" {
				t.Errorf("\n%q, want\n%q", got, c.want)
			}
		})
	}
}

// Whatever a name has, its line is one line, has nothing that a terminal acts on, and says
// the name.
func FuzzLine(f *testing.F) {
	f.Add("a", "r\r\n", "\x1b[31m")
	f.Add("login", "\u202e\U000e0041\u2028", "\xff")
	f.Fuzz(func(t *testing.T, action, resource, reason string) {
		line := appendLine(nil, Event{Action: action, Resource: resource, Reason: reason})
		text, ok := bytes.CutSuffix(line, []byte("\n"))
		if !ok || !utf8.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("the line is %q", line)
		}
		var e Event
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		valid := func(s string) string { return string([]rune(s)) } // each byte that is none becomes one mark
		if e.Action != valid(action) || e.Resource != valid(resource) || e.Reason != valid(reason) {
			t.Errorf("%q, %q, %q became %+v", action, resource, reason, e)
		}
		if strings.Count(string(line), "\n") != 1 {
			t.Errorf("%q has several lines", line)
		}
	})
}
