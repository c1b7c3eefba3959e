package pglock

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// Whatever the elements are, pgx reads the same out of the array.
func FuzzArray(f *testing.F) {
	f.Add("", "NULL", `"\`)
	f.Add("{,}", " a ", "é\n\t'")
	types := pgtype.NewMap()
	f.Fuzz(func(t *testing.T, a, b, c string) {
		items := []string{a, b, c}
		if slices.ContainsFunc(items, func(item string) bool { return !utf8.ValidString(item) || strings.Contains(item, "\x00") }) {
			return // the server takes no such text
		}
		values, err := encode([]any{items})
		if err != nil {
			t.Fatal(err)
		}
		var read []string
		if err := types.Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, values[0], &read); err != nil || !slices.Equal(read, items) {
			t.Errorf("%q is read as %q, error %v", items, read, err)
		}
	})
}

func TestColumns(t *testing.T) {
	read := func(do func(c *columns), values ...string) error {
		c := columns{values: make([][]byte, len(values))}
		for i, v := range values {
			if v != "NULL" {
				c.values[i] = []byte(v)
			}
		}
		do(&c)
		return c.end()
	}
	var o acquired
	if err := read(o.read, "1", "5", "NULL", "-7", "", "3", "2147483647", "[]"); err != nil || o.Outcome != 1 || *o.Clock != 5 || o.Ends != nil ||
		*o.Token != -7 || *o.Holds != "" || *o.Place != 3 || *o.Waiters != math.MaxInt32 || *o.Ahead != "[]" {
		t.Errorf("%+v, error %v", o, err)
	}
	for what, c := range map[string]struct {
		do     func(c *columns)
		values []string
		says   string
	}{
		"null outcome": {new(acquired).read, []string{"NULL", "1", "1", "1", "", "1", "1", ""}, "column 1 is null"},
		"too few":      {new(changed).read, []string{"1", "1", "1"}, "column 4 is missing"},
		"none":         {new(mark).read, nil, "column 1 is missing"},
		"too many":     {new(mark).read, []string{"a", "b"}, "column 2 is one too many"},
		"null text":    {new(mark).read, []string{"NULL"}, "column 1 is null"},
		"no number":    {new(swept).read, []string{"1", "x", "t"}, `column 2 is "x"`},
		"empty number": {new(swept).read, []string{"", "1", "t"}, `column 1 is ""`},
		"no int4":      {new(swept).read, []string{"2147483648", "1", "t"}, "32 bits"},
		"no int8":      {new(listed).read, []string{"r", "9223372036854775808", "", ""}, "64 bits"},
		"no bool":      {new(swept).read, []string{"1", "1", "true"}, `"true", not t or f`},
		"first error":  {new(swept).read, []string{"a", "b", "c"}, `column 1 is "a"`},
	} {
		err := read(c.do, c.values...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", what, err, c.says)
		}
	}
}

// No row makes a decoder panic, and what it accepts is what pgx reads.
func FuzzColumns(f *testing.F) {
	f.Add([]byte("1"), []byte("t"), []byte("a"))
	f.Add([]byte("-9223372036854775808"), []byte("f"), []byte{})
	f.Add([]byte(nil), []byte(nil), []byte("\xff"))
	types := pgtype.NewMap()
	f.Fuzz(func(t *testing.T, number, boolean, text []byte) {
		c := columns{values: [][]byte{number, boolean, text}}
		n, is, s := c.bigintOrNull(), c.boolOrNull(), c.textOrNull()
		if c.end() == nil {
			var wantN *int64
			var wantIs *bool
			if err := types.Scan(pgtype.Int8OID, pgtype.TextFormatCode, number, &wantN); err != nil || !same(n, wantN) {
				t.Errorf("number %q: %v, pgx has %v, error %v", number, n, wantN, err)
			}
			if err := types.Scan(pgtype.BoolOID, pgtype.TextFormatCode, boolean, &wantIs); err != nil || !same(is, wantIs) {
				t.Errorf("boolean %q: %v, pgx has %v, error %v", boolean, is, wantIs, err)
			}
			if (s == nil) != (text == nil) || s != nil && *s != string(text) {
				t.Errorf("text %q: %v", text, s)
			}
		}
		var (
			a acquired
			h changed
			l listed
			w swept
			m mark
			i found
		)
		for _, read := range []func(*columns){a.read, h.read, l.read, w.read, m.read, i.read} {
			for n := range 4 {
				c := columns{values: [][]byte{number, boolean, text}[:n]}
				read(&c)
				_ = c.end()
			}
		}
	})
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
