package location

import (
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
)

// Dereference returns the URL that the value of --store stands for: itself, or with
// env:NAME and file:PATH the content of the variable or the file. A URL with a
// password is safer there than on the command line.
func Dereference(named string) (string, error) {
	form, where, _ := strings.Cut(named, ":")
	switch strings.ToLower(form) {
	case "env":
		return storeVariable(where)
	case "file":
		return storeFile(where)
	}
	return named, nil
}

// VariableName matches the names that shells can set. Anything else may be a URL.
var VariableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func storeVariable(name string) (string, error) {
	if !VariableName.MatchString(name) {
		return "", exit.Usagef("after env: comes the name of a variable that has the store's URL, as in env:LOCKS_URL")
	}
	text := os.Getenv(name)
	if text == "" {
		return "", exit.Usagef("the variable %s has no URL of a store; set and export it", name)
	}
	return text, nil
}

// maxStoreFile is more bytes than any URL has.
const maxStoreFile = 64 << 10

func storeFile(path string) (string, error) {
	if path == "" {
		return "", exit.Usagef("after file: comes the path of a file that has the store's URL, as in file:/etc/holdfast/store")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", exit.Usagef("the file that has the store's URL cannot be read: %v", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxStoreFile))
	if err != nil {
		return "", exit.Usagef("the file that has the store's URL cannot be read: %v", err)
	}
	line, more, _ := strings.Cut(string(content), "\n")
	line = strings.TrimSuffix(line, "\r")
	switch {
	case strings.HasPrefix(line, "SQLite format 3\x00"):
		return "", exit.Usagef("the file %q is a SQLite database, not the URL of one; name it as sqlite:%s", path, path)
	case more != "" || len(content) == maxStoreFile:
		return "", exit.Usagef("the file %q has more than one line; it must have one, the store's URL", path)
	case line == "":
		return "", exit.Usagef("the file %q is empty; it must have one line, the store's URL", path)
	}
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o004 != 0 && secret.HasPassword(line) {
		output.Say("others can read the password in the file %q; take that right from them with chmod o-r", path)
	}
	return line, nil
}
