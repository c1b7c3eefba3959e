// Command transcript keeps transcripts and examples in the documentation true (make docs). It
// runs the scripts in docs/transcripts with a freshly built holdfast, reads the examples of the
// root package and the programs in docs/examples, and writes them between these markers
//
//	<!-- transcript NAME -->
//	<!-- /transcript -->
//	<!-- example ExampleName -->
//	<!-- /example -->
//	<!-- example examples/NAME -->
//	<!-- /example -->
//
// of every Markdown file. With -check it changes nothing and fails if something differs. Output
// that differs from run to run is replaced as stable.go says. It also checks that links to files
// have a target.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/command"
	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// scripts is the folder of the scripts: NAME.txt for each transcript.
const scripts = "docs/transcripts"

func main() {
	check := flag.Bool("check", false, "change nothing; fail if a transcript is not what happens")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	err := run(ctx, *check)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "transcript:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	root, err := modules.Root(ctx)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "holdfast-transcript-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	bin := filepath.Join(tmp, "bin")
	if _, err := command.Build(ctx, bin, nil); err != nil {
		return err
	}
	sessions, err := runAll(ctx, filepath.Join(root, scripts), bin, tmp)
	if err != nil {
		return err
	}
	code, err := examples(root)
	if err != nil {
		return err
	}
	if err := programs(root, code); err != nil {
		return err
	}
	docs, err := modules.Output(ctx, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md")
	if err != nil {
		return err
	}
	shown := make(map[string]bool)
	var stale []error
	for doc := range strings.SplitSeq(strings.TrimRight(docs, "\x00"), "\x00") {
		file := filepath.Join(root, doc)
		old, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but the deletion is not staged yet
		} else if err != nil {
			return err
		}
		stale = append(stale, links(filepath.Dir(file), string(old)))
		text, err := fill(string(old), sessions, code, shown)
		if err != nil {
			return fmt.Errorf("%s: %w", doc, err)
		}
		switch {
		case text == string(old):
		case check:
			stale = append(stale, fmt.Errorf("%s is not what happens; make docs would change\n%s", doc, difference(ctx, tmp, string(old), text)))
		default:
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return err
			}
			fmt.Println("wrote", doc)
		}
	}
	for name := range sessions {
		if !shown[name] {
			stale = append(stale, fmt.Errorf("%s/%s.txt: no document has the marker <!-- transcript %s -->", scripts, name, name))
		}
	}
	return errors.Join(stale...)
}

// link matches a link to a file.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

// links returns an error if the document links to files that do not exist.
func links(folder, text string) error {
	var broken []error
	for _, found := range link.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(found[1]))); err != nil {
			broken = append(broken, fmt.Errorf("a link leads nowhere: %w", err))
		}
	}
	return errors.Join(broken...)
}

// runAll runs every script and returns the output of its terminals, by name.
func runAll(ctx context.Context, folder, bin, tmp string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	sessions := make(map[string]string)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		steps, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s.txt: %w", name, err)
		}
		home := filepath.Join(tmp, name)
		if err := os.Mkdir(home, 0o755); err != nil {
			return nil, err
		}
		session, err := play(ctx, steps, bin, home)
		if err != nil {
			return nil, fmt.Errorf("%s.txt: %w", name, err)
		}
		here, err := thisMachine(home)
		if err != nil {
			return nil, err
		}
		sessions[name] = here.stable(session)
	}
	return sessions, nil
}

var region = regexp.MustCompile(`(?ms)^<!-- (transcript ([a-z0-9-]+)|example (Example\w+|examples/\w+)) -->\n.*?^<!-- /(transcript|example) -->$`)

// fill puts sessions and code between the markers of a document, and records in shown which
// sessions the document shows.
func fill(doc string, sessions, code map[string]string, shown map[string]bool) (string, error) {
	var unknown error
	doc = region.ReplaceAllStringFunc(doc, func(old string) string {
		m := region.FindStringSubmatch(old)
		what, session, example := m[1], m[2], m[3]
		kind, _, _ := strings.Cut(what, " ")
		language, text, ok := "console", sessions[session], sessions[session] != ""
		if example != "" {
			language, text, ok = "go", code[example], code[example] != ""
		}
		if !ok || m[4] != kind {
			unknown = fmt.Errorf("the marker <!-- %s --> has nothing to show: want a script in %s or an example in the root package, of the adapters or in examples, and the same word in its end", what, scripts)
			return old
		}
		if session != "" {
			shown[session] = true
		}
		return fmt.Sprintf("<!-- %s -->\n```%s\n%s```\n<!-- /%s -->", what, language, text, kind)
	})
	return doc, unknown
}

// difference returns the difference of two texts as a diff.
func difference(ctx context.Context, tmp, documented, happens string) string {
	for name, text := range map[string]string{"documented": documented, "happens": happens} {
		if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o644); err != nil {
			return err.Error()
		}
	}
	diff := modules.Command(ctx, tmp, "git", "diff", "--no-index", "--no-color", "--no-ext-diff", "documented", "happens")
	out, err := diff.Output() // exit status 1: they differ
	if len(out) == 0 && err != nil {
		return err.Error()
	}
	return string(out)
}
