// Package overlay replaces the text of source files for one build, with the flag -overlay of
// the go command. The files themselves do not change.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Replaced returns the text of a file with the part before replaced by after. It fails unless
// before is there exactly once.
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

// Write writes texts into the folder, and a list of them for the flag -overlay of the go
// command. It returns the path of the list. The keys of texts are the absolute paths of the
// files to replace; they need not exist.
func Write(folder string, texts map[string]string) (list string, err error) {
	replaced := make(map[string]string, len(texts))
	for original, text := range texts {
		// Two files of different folders may have the same name.
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
