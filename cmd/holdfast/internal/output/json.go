package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sync"
	"unicode/utf8"
)

// control matches the control characters that JSON allows in a string as they are,
// and that some terminals obey.
var control = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[\u007f-\u009f]") })

// JSON prints the value as JSON in many lines, without characters that a terminal
// would obey.
func JSON(out io.Writer, value any) error { return printJSON(out, value, "  ") }

func printJSON(out io.Writer, value any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		return err
	}
	_, err := out.Write(control().ReplaceAllFunc(text.Bytes(), func(char []byte) []byte {
		r, _ := utf8.DecodeRune(char)
		return fmt.Appendf(nil, `\u%04x`, r)
	}))
	return err
}
