package access

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// pattern is what a rule calls resources by: a name, or a prefix and one final "*", which
// stands for any bytes, also for none. Bytes are compared: no case is folded, and no
// Unicode form is another's.
type pattern struct {
	text   string // without the "*"
	prefix bool
}

// parsePattern refuses what matches no resource, and a "*" elsewhere than at the end:
// somebody expects it to stand for something.
func parsePattern(s string) (pattern, error) {
	text, prefix := strings.CutSuffix(s, "*")
	if strings.Contains(text, "*") {
		return pattern{}, fmt.Errorf("pattern %q has a * that is not its only one at the end", s)
	}
	if prefix && text == "" {
		return pattern{prefix: true}, nil
	}
	if err := driver.ValidResource(text); err != nil {
		return pattern{}, fmt.Errorf("pattern %q matches no resource: %w", s, err)
	}
	return pattern{text: text, prefix: prefix}, nil
}

func (p pattern) matches(resource string) bool {
	if p.prefix {
		return strings.HasPrefix(resource, p.text)
	}
	return resource == p.text
}

// matchesAll reports whether the pattern matches every resource.
func (p pattern) matchesAll() bool { return p.prefix && p.text == "" }
