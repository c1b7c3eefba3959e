package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStable(t *testing.T) {
	one := machine{home: "/tmp/x1/home", user: "root", host: "build-7"}
	two := machine{home: "/tmp/y/home", user: "j", host: "a-machine-with-a-long-name"}
	const want = `second$ holdfast status
RESOURCE        OWNER  HOST  LOCK ID                   LEFT  TOKEN             COMMENT
nightly-report  ada    web1  29b79b9b5e75579a8aab237b  30s   1767225600000000  the report of root
other           batch  web1                            3s    1767225602000000
  1. other      bob    web1                            -     -
holdfast: released by force: 1 of 2
"nightly-report" is held by bob on web1. It ends in 30s
second$ holdfast run nightly-report -- true
holdfast: "nightly-report" is held by ada on web1 for 1s, 29s left (sh, pid 4711)
this lock is for user ada on host web1 only (~/.local/state/holdfast/locks.db)
{"owner": "ada", "host": "web1", "ttlMs": 30000, "lockId": "29b79b9b5e75579a8aab237b"}
`
	for _, tc := range []struct {
		name string
		here machine
		text string
	}{
		{"one", one, `second$ holdfast status
RESOURCE        OWNER   HOST     LOCK ID                   LEFT   TOKEN             COMMENT
nightly-report  root    build-7  aaaaaaaaaaaaaaaaaaaaaaaa  29.9s  1790000000000000  the report of root
other           batch   build-7                            2.9s   1790000000000001
  1. other      bob     build-7                            -      -
holdfast: released by force: 1 of 2
"nightly-report" is held by bob on build-7. It ends in 28s
second$ holdfast run nightly-report -- true
holdfast: waiting for "nightly-report", held by root on build-7 for 4s, 28s left
holdfast: "nightly-report" is held by root on build-7 for 4s, 28s left (sh, pid 1)
this lock is for user root on host build-7 only (/tmp/x1/home/.local/state/holdfast/locks.db)
{"owner": "root", "host": "build-7", "ttlMs": 29999, "lockId": "aaaaaaaaaaaaaaaaaaaaaaaa"}
`},
		{"two", two, `second$ holdfast status
RESOURCE        OWNER   HOST                        LOCK ID                   LEFT  TOKEN             COMMENT
nightly-report  j       a-machine-with-a-long-name  bbbbbbbbbbbbbbbbbbbbbbbb  30s   1800000000000000  the report of root
other           batch   a-machine-with-a-long-name                            3s    1900000000000001
  1. other      bob     a-machine-with-a-long-name                            -     -
holdfast: released by force: 1 of 2
"nightly-report" is held by bob on a-machine-with-a-long-name. It ends in 2.5s
second$ holdfast run nightly-report -- true
holdfast: "nightly-report" is held by j on a-machine-with-a-long-name for 1m0s, 59.9s left, renewed by its holder (sh, pid 123456)
this lock is for user j on host a-machine-with-a-long-name only (/tmp/y/home/.local/state/holdfast/locks.db)
{"owner": "j", "host": "a-machine-with-a-long-name", "ttlMs": 8, "lockId": "bbbbbbbbbbbbbbbbbbbbbbbb"}
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.here.stable(tc.text); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestPlay has two terminals. The second one waits for the first.
func TestPlay(t *testing.T) {
	steps, err := parse(`
		# not shown
		+ echo prepared > file
		first& echo started; touch there; until test -e seen; do :; done; echo ended
		~ test -e there
		second$ cat file; touch seen
		~ grep -qx ended ../home.screen
		second$ false || echo "exit status $?"
	`)
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := play(t.Context(), steps, "/nowhere", home)
	if err != nil {
		t.Fatal(err)
	}
	const want = `first$ echo started; touch there; until test -e seen; do :; done; echo ended
started
second$ cat file; touch seen
prepared
ended
second$ false || echo "exit status $?"
exit status 1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFill(t *testing.T) {
	const doc = "before\n" +
		"<!-- transcript a -->\nold\n<!-- /transcript -->\n" +
		"<!-- example ExampleA -->\n<!-- /example -->\n" +
		"<!-- example examples/b -->\n<!-- /example -->\n" +
		"after `<!-- transcript b -->`\n"
	const want = "before\n" +
		"<!-- transcript a -->\n```console\n$ true\n```\n<!-- /transcript -->\n" +
		"<!-- example ExampleA -->\n```go\nprintln()\n```\n<!-- /example -->\n" +
		"<!-- example examples/b -->\n```go\npackage main\n```\n<!-- /example -->\n" +
		"after `<!-- transcript b -->`\n"
	sessions, code := map[string]string{"a": "$ true\n"}, map[string]string{"ExampleA": "println()\n", "examples/b": "package main\n"}
	shown := make(map[string]bool)
	got, err := fill(doc, sessions, code, shown)
	if err != nil || got != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	if !shown["a"] {
		t.Error("what was shown is not noted")
	}
	if again, err := fill(got, sessions, code, shown); err != nil || again != got {
		t.Errorf("filled twice: %v\n%s", err, again)
	}
	for name, broken := range map[string]string{
		"a marker without a script":   "<!-- transcript b -->\n<!-- /transcript -->\n",
		"a marker without an example": "<!-- example ExampleB -->\n<!-- /example -->\n",
		"another end":                 "<!-- transcript a -->\n<!-- /example -->\n",
	} {
		if _, err := fill(broken, sessions, code, shown); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestExamples(t *testing.T) {
	folder := t.TempDir()
	const source = `package p_test

func ExampleA() {
	if true {
		println("a {") // says why
	}

	println()
	// Output:
	// a
}

func TestA() { println() }
`
	if err := os.WriteFile(filepath.Join(folder, "a_test.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := examples(folder)
	if err != nil {
		t.Fatal(err)
	}
	const want = "if true {\n\tprintln(\"a {\") // says why\n}\n\nprintln()\n"
	if len(got) != 1 || got["ExampleA"] != want {
		t.Errorf("got %q, want only ExampleA: %q", got, want)
	}

	const program = "package main\n"
	if err := os.MkdirAll(filepath.Join(folder, "docs", "examples", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "docs", "examples", "b", "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := programs(folder, got); err != nil || got["examples/b"] != program {
		t.Errorf("%v, got %q, want %q", err, got["examples/b"], program)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{"holdfast status", "first$", "First$ true"} {
		if steps, err := parse(line); err == nil {
			t.Errorf("%q: %v, want an error", line, steps)
		}
	}
}

func TestLinks(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.md"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const fine = "[a](a.md), [part](a.md#part), [here](#part), [elsewhere](https://example.com/a.md)"
	if err := links(folder, fine); err != nil {
		t.Error(err)
	}
	if err := links(folder, fine+" [b](b.md)"); err == nil || !strings.Contains(err.Error(), "b.md") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}
