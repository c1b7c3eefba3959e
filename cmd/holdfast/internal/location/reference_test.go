package location

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/driver"
)

func TestDereference(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"store":     "redis://u:hunter2@host/0\n",
		"bare":      "local",
		"crlf":      "local\r\n",
		"empty":     "",
		"blank":     "\nlocal\n",
		"two":       "local\nredis://u:hunter2@host/0\n",
		"database":  "SQLite format 3\x00\x10\x00\x01\x01\n\n",
		"with @ it": "sqlite:///with@it\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"LOCKS": "redis://u:hunter2@host/0", "LOCAL": "local", "EMPTY": "",
	} {
		t.Setenv(name, value)
	}
	for named, want := range map[string]string{
		"local":                       "local",
		"sqlite:env:x":                "sqlite:env:x",
		"env:LOCKS":                   "redis://u:hunter2@host/0",
		"ENV:LOCAL":                   "local",
		"file:store":                  "redis://u:hunter2@host/0",
		"file:" + dir + "/store":      "redis://u:hunter2@host/0",
		"file://" + dir + "/store":    "redis://u:hunter2@host/0",
		"file:bare":                   "local",
		"file:crlf":                   "local",
		"file:with @ it":              "sqlite:///with@it",
		"env:":                        "! after env: comes the name of a variable",
		"env:redis://u:hunter2@h/0":   "! after env: comes the name of a variable",
		"env:EMPTY":                   "! the variable EMPTY has no URL",
		"env:NO_SUCH_VARIABLE":        "! the variable NO_SUCH_VARIABLE has no URL",
		"file:":                       "! after file: comes the path",
		"file:none":                   "! the file that has the store's URL cannot be read: open none: no such file or directory",
		"file:.":                      "! the file that has the store's URL cannot be read: read .: is a directory",
		"file:empty":                  `! the file "empty" is empty`,
		"file:blank":                  `! the file "blank" has more than one line`,
		"file:two":                    `! the file "two" has more than one line`,
		"file:database":               "! the file \"database\" is a SQLite database, not the URL of one; name it as sqlite:database",
		"file:redis://u:hunter2@h/0":  "! the file that has the store's URL cannot be read: open redis://u:hunter2@h/0", // say redacts it
		"file:" + dir + "/store/none": "! the file ",
	} {
		got, err := Dereference(named)
		if problem, wrong := strings.CutPrefix(want, "! "); wrong {
			e, ok := errors.AsType[*exit.Error](err)
			if !ok || e.Status != exit.Usage || !strings.HasPrefix(e.Text, problem) {
				t.Errorf("%s: got %q, %v; want %s", named, got, err, problem)
			} else if strings.Contains(secret.Redact(e.Text), "hunter2") {
				t.Errorf("%s: %s repeats the password", named, e.Text)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", named, got, err, want)
		}
	}
	// No store may be meant by the names that are forms.
	for _, form := range []string{"env", "file", "local"} {
		if slices.Contains(driver.Schemes(), form) {
			t.Errorf("%s is a store", form)
		}
	}
}
