package mongolock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// The driver silently ignores unknown options in a URL. Package mongolock refuses them,
// by a list of its own, which must have all options in the driver's source.
func TestOptionsOfURL(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "go.mongodb.org/mongo-driver/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "x/mongo/driver/connstring/connstring.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, options, found := strings.Cut(string(source), "switch lowerKey {")
	options, _, ends := strings.Cut(options, "\n\t\tdefault:\n")
	names := regexp.MustCompile(`(?m)^\t\tcase (.*):$`).FindAllStringSubmatch(options, -1)
	if !found || !ends || len(names) < 40 {
		t.Fatalf("the driver's source has another form: %d options found", len(names))
	}
	for _, list := range names {
		for name := range strings.SplitSeq(list[1], ", ") {
			name = strings.Trim(name, `"`)
			s, err := driver.Open(t.Context(), "mongodb://127.0.0.1:1/app?"+name+"=1")
			switch {
			case err == nil:
				_ = s.Close()
			case strings.Contains(err.Error(), "unknown parameter"):
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
