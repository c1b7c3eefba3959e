package httpfence

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// Header is the header of a request that has its fencing token:
//
//	Holdfast-Token: 1792345678901234
//	Holdfast-Token: 1792345678901234; resource=accounts/17
//
// The token is a decimal number below 2^53 without sign, spaces or leading zeros. The
// resource may be left out. In its name all bytes except visible ASCII are written as
// %XX, and so are the characters % " , ; and \. There is one such header, with one token.
const Header = "Holdfast-Token"

const (
	// assign separates the token from the name.
	assign = "; resource="
	// maxHeader is the length of the longest value, in which every byte of the name is
	// escaped.
	maxHeader = 16 + len(assign) + 3*driver.MaxName
)

// Token is the fencing token of a hold.
type Token struct {
	// Resource is the resource of the hold. Empty: the header does not name it.
	Resource string
	// Value is the result of Hold.Token.
	Value uint64
}

// String returns the value of the header.
func (t Token) String() string {
	value := strconv.FormatUint(t.Value, 10)
	if t.Resource == "" {
		return value
	}
	var b strings.Builder
	b.WriteString(value)
	b.WriteString(assign)
	for i := range len(t.Resource) {
		if c := t.Resource[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// plain reports whether a byte of a name is not escaped. Proxies join and split headers
// at commas.
func plain(c byte) bool { return c > ' ' && c < 0x7f && !strings.ContainsRune(`%",;\`, rune(c)) }

// parse reads the value of a header. Its error is holdfast.ErrInvalid.
func parse(header string) (Token, error) {
	if len(header) > maxHeader {
		return Token{}, malformed("it has %d bytes, at most %d are allowed", len(header), maxHeader)
	}
	number, name, named := strings.Cut(header, assign)
	value, err := parseValue(number)
	if err != nil || !named {
		return Token{Value: value}, err
	}
	resource, err := unescape(name)
	if err != nil {
		return Token{}, err
	}
	if err := driver.ValidResource(resource); err != nil {
		return Token{}, malformed("%v", err)
	}
	return Token{Resource: resource, Value: value}, nil
}

func parseValue(number string) (uint64, error) {
	value, err := strconv.ParseUint(number, 10, 64)
	if err != nil || number[0] == '0' || value > driver.MaxToken {
		return 0, malformed("%s is not a decimal number from 1 to %d without leading zeros, optionally followed by %q and a name",
			quote.Short(number), uint64(driver.MaxToken), assign)
	}
	return value, nil
}

func unescape(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case plain(c):
			b.WriteByte(c)
		case c == '%' && i+2 < len(name):
			code, err := strconv.ParseUint(name[i+1:i+3], 16, 8)
			if err != nil {
				return "", malformed("%q in the name is not a %% and two hex digits", name[i:i+3])
			}
			b.WriteByte(byte(code))
			i += 2
		default:
			return "", malformed("the name has %q, which must be written as %%XX", c)
		}
	}
	return b.String(), nil
}

func malformed(format string, args ...any) error {
	return &refusal{malformedKind, "the header " + Header + " is malformed: " + fmt.Sprintf(format, args...), holdfast.ErrInvalid}
}

type tokenKey struct{}

// TokenOf returns the token that a Handler has let through, with the resource that
// Options.Resource returned. It returns false in the ctx of other requests.
func TokenOf(ctx context.Context) (Token, bool) {
	t, ok := ctx.Value(tokenKey{}).(Token)
	return t, ok
}
