package pglock

import (
	"fmt"
	"strconv"
	"strings"
)

// encode returns the arguments of a statement in the server's text format; nil is NULL.
// It knows the types that the store's statements take, and no others.
func encode(args []any) ([][]byte, error) {
	values := make([][]byte, len(args))
	for i, arg := range args {
		switch a := arg.(type) {
		case nil:
		case string:
			values[i] = []byte(a)
		case *string:
			if a != nil {
				values[i] = []byte(*a)
			}
		case int:
			values[i] = strconv.AppendInt(nil, int64(a), 10)
		case int64:
			values[i] = strconv.AppendInt(nil, a, 10)
		case bool:
			values[i] = strconv.AppendBool(nil, a)
		case []string:
			values[i] = array(a, appendQuoted)
		case []int64:
			values[i] = array(a, func(to []byte, n int64) []byte { return strconv.AppendInt(to, n, 10) })
		default:
			return nil, fmt.Errorf("argument %d is a %T, which the store cannot send", i+1, arg)
		}
	}
	return values, nil
}

func array[T any](items []T, add func(to []byte, item T) []byte) []byte {
	text := append(make([]byte, 0, 2+8*len(items)), '{')
	for i, item := range items {
		if i > 0 {
			text = append(text, ',')
		}
		text = add(text, item)
	}
	return append(text, '}')
}

// appendQuoted appends the element of an array. In quotes, only these two characters
// mean more than themselves, and not even NULL does.
func appendQuoted(to []byte, item string) []byte {
	to = append(to, '"')
	for i := range len(item) {
		if c := item[i]; c == '"' || c == '\\' {
			to = append(to, '\\')
		}
		to = append(to, item[i])
	}
	return append(to, '"')
}

// columns decodes a row, column by column, from the server's text format. After an
// error, kept in err, it returns zero values.
type columns struct {
	values [][]byte
	n      int // how many were read
	err    error
}

// next returns the next column, nil if it is NULL.
func (c *columns) next() []byte {
	c.n++
	if c.n > len(c.values) {
		c.fail("is missing")
		return nil
	}
	return c.values[c.n-1]
}

func (c *columns) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("the answer is not in the form that the schema's functions have: column %d "+format, append([]any{c.n}, args...)...)
	}
}

// some returns the value of a column that must have one.
func some[T any](c *columns, value *T) (v T) {
	if value != nil {
		return *value
	}
	c.fail("is null")
	return v
}

func (c *columns) text() string  { return some(c, c.textOrNull()) }
func (c *columns) bigint() int64 { return some(c, c.bigintOrNull()) }
func (c *columns) bool() bool    { return some(c, c.boolOrNull()) }
func (c *columns) int() int      { return int(some(c, c.number(32))) }

func (c *columns) textOrNull() *string {
	value := c.next()
	if value == nil {
		return nil
	}
	text := string(value)
	return &text
}

func (c *columns) bigintOrNull() *int64 { return c.number(64) }

func (c *columns) intOrNull() *int {
	value := c.number(32)
	if value == nil {
		return nil
	}
	n := int(*value)
	return &n
}

func (c *columns) number(bits int) *int64 {
	value := c.next()
	if value == nil {
		return nil
	}
	n, err := strconv.ParseInt(string(value), 10, bits)
	if err != nil {
		c.fail("is %q, not a number of %d bits", brief(value), bits)
	}
	return &n
}

func (c *columns) boolOrNull() *bool {
	value := c.next()
	if value == nil {
		return nil
	}
	is := string(value) == "t"
	if !is && string(value) != "f" {
		c.fail("is %q, not t or f", brief(value))
	}
	return &is
}

// end returns the first error, which may be that there are more columns.
func (c *columns) end() error {
	if c.err == nil && c.n != len(c.values) {
		c.n = len(c.values)
		c.fail("is one too many")
	}
	return c.err
}

// brief keeps an error short.
func brief(value []byte) string { return strings.ToValidUTF8(string(value[:min(len(value), 20)]), "?") }
