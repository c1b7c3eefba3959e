package httpfence

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

var long = strings.Repeat("\n", driver.MaxName)

func TestParse(t *testing.T) {
	for header, want := range map[string]Token{
		"1":                                     {"", 1},
		"1792345678901234":                      {"", 1792345678901234},
		"9007199254740991":                      {"", driver.MaxToken},
		"7; resource=a":                         {"a", 7},
		"7; resource=accounts/17:x@y=z&~*'()!":  {"accounts/17:x@y=z&~*'()!", 7},
		"7; resource=%2C%3b%22%5C%25%20%0A":     {`,;"\%` + " \n", 7},
		"7; resource=%F0%9F%94%92":              {"🔒", 7},
		"7; resource=%61b":                      {"ab", 7},
		(Token{long, driver.MaxToken}).String(): {long, driver.MaxToken},
	} {
		if got, err := parse(header); err != nil || got != want {
			t.Errorf("%q: %v, error %v, want %v", header, got, err, want)
		}
	}
	for _, header := range []string{
		"", " ", "0", "00", "07", "-1", "+1", "1.0", "1e3", "0x10", "1_000", "１", " 1", "1 ", "1\t", "a", "null", `"1"`,
		"9007199254740992", "18446744073709551616", "00000000000000001",
		"1,2", "1, 2", "1;", "1; ", "1; resource", "1; resource=", "1;resource=a", "1;  resource=a", "1; Resource=a", "; resource=a",
		"1; resource=a, 2; resource=b", "1; resource=a; resource=b", "1; resource=a;x=y", "1; resource=a b", "1; resource=a\n", "1; resource=é",
		`1; resource="a"`, "1; resource=%", "1; resource=%4", "1; resource=%zz", "1; resource=%+1", "1; resource=%00", "1; resource=%FF", "1; resource=%ED%A0%80",
		"1; resource=" + strings.Repeat("a", driver.MaxName+1), "1; resource=" + strings.Repeat("%61", driver.MaxName+1),
	} {
		if got, err := parse(header); !errors.Is(err, holdfast.ErrInvalid) || got.Resource != "" {
			t.Errorf("%q: %v, error %v", header, got, err)
		}
	}
}

// Every parsed header is a token of a resource. It has one written form, which is parsed
// as the same token.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1", "9007199254740991", "7; resource=a/b", "7; resource=%2C%F0%9F%94%92", "01", "1, 2", "1; resource=%", "1;resource=a", "1; resource=%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := parse(header)
		if err != nil {
			if !errors.Is(err, holdfast.ErrInvalid) || refusalOf(err).kind != malformedKind {
				t.Errorf("error %v", err)
			}
			return
		}
		if token.Value < 1 || token.Value > driver.MaxToken || token.Resource != "" && driver.ValidResource(token.Resource) != nil {
			t.Errorf("%q is parsed as %v", header, token)
		}
		written := token.String()
		if again, err := parse(written); err != nil || again != token {
			t.Errorf("%v is written as %q and read as %v, error %v", token, written, again, err)
		}
		if strings.ContainsFunc(written, func(c rune) bool { return c < ' ' || c > '~' || c == ',' || c == '"' }) {
			t.Errorf("%v is written as %q", token, written)
		}
	})
}

// The header of every resource name is parsed as the same name.
func FuzzToken(f *testing.F) {
	for _, seed := range []string{"a", "accounts/17", "a, b; c=\"d\"\\%20", "\x01\n\r\t", "🔒", long} {
		f.Add(seed, uint64(7))
	}
	f.Fuzz(func(t *testing.T, resource string, value uint64) {
		token := Token{resource, value%driver.MaxToken + 1}
		if driver.ValidResource(resource) != nil {
			return
		}
		if got, err := parse(token.String()); err != nil || got != token {
			t.Errorf("%q is read as %v, error %v", token.String(), got, err)
		}
	})
}
