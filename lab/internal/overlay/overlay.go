// Package overlay changes source files for one build, and leaves them as they are. It
// does not build anything.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Replaced is the text of a file with one part replaced by another. It is an error if
// the old part is not there exactly once.
func Replaced(path, before, after string) (string, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), before); n != 1 {
		return "", fmt.Errorf("%s has %d times %q, want once", path, n, before)
	}
	return strings.Replace(string(source), before, after, 1), nil
}

// Write writes texts to a folder of their own, and beside them the list that go's flag
// -overlay takes, whose path it returns. The keys are the absolute paths of the files
// that the texts stand in for; they need not exist.
func Write(folder string, texts map[string]string) (list string, err error) {
	replaced := make(map[string]string, len(texts))
	for original, text := range texts {
		// Files of several folders may have one name.
		path := filepath.Join(folder, strconv.Itoa(len(replaced))+"-"+filepath.Base(original))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replaced[original] = path
	}
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	list = filepath.Join(folder, "overlay.json")
	return list, os.WriteFile(list, content, 0o600)
}
