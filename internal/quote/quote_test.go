package quote_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
)

func TestShort(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for text, want := range map[string]string{
		"":                       `""`,
		"a\n\xff":                `"a\n\xff"`,
		x(64):                    `"` + x(64) + `"`,
		x(65):                    `"` + x(64) + `"…`,
		x(63) + "é":              `"` + x(63) + `"…`,
		x(62) + "é":              `"` + x(62) + `é"`,
		x(62) + "🔒":              `"` + x(62) + `"…`,
		strings.Repeat("é", 800): `"` + strings.Repeat("é", 32) + `"…`,
		x(60) + "\x80\x80\x80\x80\x80\x80\x80\x80": `"` + x(60) + `"…`,
	} {
		if got := quote.Short(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if name := x(driver.MaxName); quote.Name(name) != `"`+name+`"` {
		t.Error("a valid name is shortened")
	}
	if got := quote.Name(x(driver.MaxName + 1)); got != quote.Short(x(100)) {
		t.Errorf("a text that is too long for a name is quoted as %s", got)
	}
}
