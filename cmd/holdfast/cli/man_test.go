package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "man1")
	if err := writePages(newRoot(), dir); err != nil {
		t.Fatal(err)
	}
	var files []string
	walk(newRoot(), func(cmd *cobra.Command) {
		if !cmd.Runnable() {
			return
		}
		file := filepath.Join(dir, pageName(cmd)+".1")
		files = append(files, file)
		page, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			return
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && !bytes.Contains(page, []byte(roff(" --"+flag.Name+" "))) && !bytes.Contains(page, []byte(roff(" --"+flag.Name+"\n"))) {
				t.Errorf("%s does not have --%s", file, flag.Name)
			}
		})
	})
	// The same again, whatever the time is.
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	again := t.TempDir()
	if err := writePages(newRoot(), again); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		one, _ := os.ReadFile(file) // it was read before
		two, err := os.ReadFile(filepath.Join(again, filepath.Base(file)))
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s is not the same twice: %v", file, err)
		}
	}
	for _, checker := range [][]string{
		{"groff", "-man", "-ww", "-z", "-Tutf8"},
		{"mandoc", "-T", "lint", "-W", "error"},
	} {
		t.Run(checker[0], func(t *testing.T) {
			path, err := exec.LookPath(checker[0])
			if err != nil {
				t.Skip("it is not installed:", err)
			}
			for _, file := range files {
				out, err := exec.CommandContext(t.Context(), path, append(checker[1:], file)...).CombinedOutput()
				if err != nil || len(out) > 0 {
					t.Errorf("%s: %v\n%s", file, err, out)
				}
			}
		})
	}
}

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"plain":       "plain",
		".TH x":       `\&.TH x`,
		"'x'":         `\(aqx\(aq`,
		`a\b "c"`:     `a\eb \(dqc\(dq`,
		"--store=~/^": `\-\-store=\(ti/\(ha`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%s is set as %s, want %s", text, got, want)
		}
	}
}
