package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Keep writes a result file.
func Keep(file string, of any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(of); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// Load reads a result file.
func Load(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// end is the line after the text that Fill replaces.
const end = "<!-- to here -->\n"

// Fill replaces the text of a document between the line <!-- WRITER writes from here --> and
// the next line <!-- to here -->.
func Fill(document, writer, text string) (string, error) {
	begin := fmt.Sprintf("<!-- %s writes from here -->\n", writer)
	before, rest, ok1 := strings.Cut(document, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		return "", fmt.Errorf("the lines %s and %s are missing", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}
