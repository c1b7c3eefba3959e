package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/driver"
)

// ErrTooMany means that an array has more items than the tag most of its field allows. It
// is found before the items take memory.
var ErrTooMany = errors.New("too many items")

// Decode reads the body of a request into v, a pointer to a struct of this package.
// Unlike json.Unmarshal it refuses members that v does not have, that occur twice, that
// differ in case, or that are null unless null means unknown or none there. It also
// refuses text that is not UTF-8, and anything after the value. It accepts an integer in
// any notation: 30000.0 is an integer in JSON Schema, and some languages write computed
// numbers like that. No digit is lost. Its error is driver.ErrInvalid and says where the
// body is wrong; it may also be ErrTooMany.
func Decode(body []byte, v any) error {
	if !utf8.Valid(body) {
		return fmt.Errorf("%w: the body is not UTF-8", driver.ErrInvalid)
	}
	if at := loneSurrogate(body); at >= 0 {
		return fmt.Errorf("%w: the body has half a surrogate pair at byte %d, which is no character", driver.ErrInvalid, at)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	c := checker{d: d, body: body}
	if err := c.value(reflect.TypeOf(v).Elem(), "the body", 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the JSON value of the body", driver.ErrInvalid)
	}
	text := c.plain()
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: %s", driver.ErrInvalid, explain(err, text))
	}
	return nil
}

// explain describes the error without terms that only Go programmers understand.
func explain(err error, text []byte) string {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	member := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:] // the rest has Go names
	hint := ""
	if strings.HasPrefix(wrong.Value, "number ") && wrong.Type != nil && isInteger(wrong.Type.Kind()) {
		hint = ": it takes a whole number of 64 bits"
	}
	return fmt.Sprintf("member %q cannot be a %.100s%s (%s)", member, wrong.Value, hint, positionIn(text, wrong.Offset))
}

// positionIn describes a position in the text. It names no line if there is only one.
func positionIn(text []byte, offset int64) string {
	if before := bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n")); before > 0 {
		return fmt.Sprintf("line %d", before+1)
	}
	return fmt.Sprintf("byte %d", offset)
}

// checker walks through a value and compares it with the type into which it is decoded.
type checker struct {
	d    *json.Decoder
	body []byte
	// rest is the offset of the part of the body that is not yet copied to fixed. fixed
	// is the body with its integers in the form that json.Unmarshal accepts.
	rest  int64
	fixed []byte
}

// position describes the position of the next token after an offset of the decoder.
func (c *checker) position(at int64) string {
	rest := c.body[at:]
	return positionIn(c.body, at+int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:"))))
}

func (c *checker) incomplete(where string, err error) error {
	return fmt.Errorf("%w: %s is not complete JSON: %v (%s)", driver.ErrInvalid, where, err, c.position(c.d.InputOffset()))
}

// value checks a value. most is the largest number of items of an array, 0 for any
// number.
func (c *checker) value(t reflect.Type, where string, most int) error {
	token, err := c.d.Token()
	if err != nil {
		return c.incomplete(where, err)
	}
	optional := t.Kind() == reflect.Pointer
	if optional {
		t = t.Elem()
	}
	if token == nil {
		if optional {
			return nil
		}
		return fmt.Errorf("%w: %s is null: leave it out", driver.ErrInvalid, where)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		if n, ok := token.(json.Number); ok && isInteger(t.Kind()) {
			c.integer(n.String())
		}
		return nil // json.Unmarshal checks its type
	}
	switch delim {
	case '{':
		if t.Kind() != reflect.Struct {
			return fmt.Errorf("%w: %s cannot be an object", driver.ErrInvalid, where)
		}
		return c.object(t, where)
	default:
		if t.Kind() != reflect.Slice {
			return fmt.Errorf("%w: %s cannot be an array", driver.ErrInvalid, where)
		}
		return c.array(t.Elem(), where, most)
	}
}

func (c *checker) object(t reflect.Type, where string) error {
	var seen []string
	for c.d.More() {
		at := c.d.InputOffset()
		token, err := c.d.Token()
		if err != nil {
			return c.incomplete(where, err)
		}
		name, _ := token.(string)
		member, known := memberOf(t, name)
		switch {
		case !known:
			return fmt.Errorf("%w: %.100q is not a member of %s (%s); %s", driver.ErrInvalid, name, where, c.position(at), memberHint(t, name))
		case slices.Contains(seen, name):
			return fmt.Errorf("%w: %s has the member %q twice", driver.ErrInvalid, where, name)
		}
		seen = append(seen, name)
		most, _ := strconv.Atoi(member.Tag.Get("most"))
		if err := c.value(member.Type, fmt.Sprintf("member %q", name), most); err != nil {
			return err
		}
	}
	return c.end(where)
}

func (c *checker) array(t reflect.Type, where string, most int) error {
	for n := 1; c.d.More(); n++ {
		if most > 0 && n > most {
			return fmt.Errorf("%w: %w: %s has more than %d", driver.ErrInvalid, ErrTooMany, where, most)
		}
		if err := c.value(t, fmt.Sprintf("item %d of %s", n, where), 0); err != nil {
			return err
		}
	}
	return c.end(where)
}

func (c *checker) end(where string) error {
	if _, err := c.d.Token(); err != nil {
		return c.incomplete(where, err)
	}
	return nil
}

func isInteger(k reflect.Kind) bool {
	return k == reflect.Int || k == reflect.Int64 || k == reflect.Uint64
}

// integer rewrites the integer just read for json.Unmarshal. Anything that is not an
// integer stays, and is refused later.
func (c *checker) integer(text string) {
	const longest = 64 // far more than any integer needs, and quickly computed
	if !strings.ContainsAny(text, ".eE") && text != "-0" || len(text) > longest {
		return
	}
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		if n, err := strconv.Atoi(text[e+1:]); err != nil || n < -longest || n > longest {
			return
		}
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() {
		return
	}
	end := c.d.InputOffset()
	c.fixed = append(c.fixed, c.body[c.rest:end-int64(len(text))]...)
	c.fixed = n.Num().Append(c.fixed, 10)
	c.rest = end
}

// plain returns the body for json.Unmarshal.
func (c *checker) plain() []byte {
	if c.rest == 0 {
		return c.body
	}
	return append(c.fixed, c.body[c.rest:]...)
}

// memberOf returns the field of a member, also of an embedded struct.
func memberOf(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			if member, ok := memberOf(f.Type, name); ok {
				return member, true
			}
		} else if nameOf(f) == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// nameOf returns the name of the field's member.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// memberHint says where a member belongs that the struct lacks, or lists the struct's
// members.
func memberHint(t reflect.Type, name string) string {
	var members []string
	for _, f := range reflect.VisibleFields(t) {
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			if _, known := memberOf(f.Type.Elem(), name); known {
				return fmt.Sprintf("it belongs into an item of %q", nameOf(f))
			}
		}
		if !f.Anonymous {
			members = append(members, nameOf(f))
		}
	}
	return "it has: " + strings.Join(members, ", ")
}

// loneSurrogate returns the position of an escape \uD800 to \uDFFF that is not half of a
// pair, or -1. json.Unmarshal turns it into another character, and so into another name.
func loneSurrogate(text []byte) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		switch r := escaped(text[i:]); {
		case r < 0:
			i++ // another escape
		case utf16.IsSurrogate(r):
			if utf16.DecodeRune(r, escaped(text[i+6:])) == utf8.RuneError {
				return i
			}
			i += 11
		}
	}
	return -1
}

// escaped returns the number of the escape \uXXXX at the beginning of the text, or -1.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
