// Package strictjson reads JSON that people and programs write, and forgives nothing: with a typo in
// "limit", a semaphore would have no limit.
package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/driver"
)

// ErrTooMany means that an array has more items than the tag most of its field allows. It
// is found before the items take memory.
var ErrTooMany = errors.New("too many items")

// paired reports whether each escape \uD800 to \uDFFF is half of a pair. Package json turns any
// other into another character, and so into another name.
func paired(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return true
		}
		switch text = text[i:]; {
		case len(text) < 4:
			return false // it is cut off
		case text[1] != 'u':
			text = text[2:]
		case text[2]|0x20 != 'd':
			text = text[3:]
		case text[3] <= '7':
			text = text[4:]
		case text[3]|0x20 <= 'b' && len(text) >= 10 && text[6] == '\\' && text[7] == 'u' && text[8]|0x20 == 'd' && text[9]|0x20 >= 'c':
			text = text[10:]
		default:
			return false
		}
	}
}

// Decode reads the body of a request into v, a pointer to a struct with members that are
// strings, integers, booleans, structs, slices, or read themselves from text. Unlike
// json.Unmarshal it refuses members that v does not have, that occur twice, that differ in
// case, or that are null unless null means unknown or none there. It also refuses text
// that is not UTF-8, and anything after the value. It accepts an integer in any notation:
// 30000.0 is an integer in JSON Schema, and some languages write computed numbers like
// that. No digit is lost. Its error is driver.ErrInvalid and says where the body is wrong;
// it may also be ErrTooMany.
func Decode(body []byte, v any) error {
	switch {
	case !utf8.Valid(body):
		return fmt.Errorf("%w: the body is not UTF-8", driver.ErrInvalid)
	case !paired(body):
		return fmt.Errorf("%w: the body has half a surrogate pair, which is no character", driver.ErrInvalid)
	}
	r := reader{body: body}
	if !json.Valid(body) { // from here on it is
		err := json.Unmarshal(body, new(any))
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
			r.start = int(wrong.Offset)
		}
		return fmt.Errorf("%w: the body is not complete JSON: %v (%s)", driver.ErrInvalid, err, r.position())
	}
	return r.value(reflect.ValueOf(v).Elem(), spot{name: "the body"}, 0)
}

// reader reads valid JSON token by token.
type reader struct {
	body      []byte
	start, at int // of the last token, and after it
}

// spot names a part of the body for errors.
type spot struct {
	name  string
	item  int // of the array, which has the part or is made of it; 0: there is none
	array string
}

func (s spot) String() string {
	switch {
	case s.item == 0:
		return s.name
	case s.name == "":
		return fmt.Sprintf("item %d of %s", s.item, s.array)
	}
	return fmt.Sprintf("%s of item %d of %s", s.name, s.item, s.array)
}

// next returns the next token as it is written.
func (r *reader) next() []byte {
	for r.at < len(r.body) && strings.IndexByte(" \t\r\n,:", r.body[r.at]) >= 0 {
		r.at++
	}
	r.start = r.at
	switch r.body[r.at] {
	case '{', '}', '[', ']':
		r.at++
	case '"':
		for r.at++; r.body[r.at] != '"'; r.at++ {
			if r.body[r.at] == '\\' {
				r.at++
			}
		}
		r.at++
	default:
		for r.at < len(r.body) && strings.IndexByte(" \t\r\n,]}", r.body[r.at]) < 0 {
			r.at++
		}
	}
	return r.body[r.start:r.at]
}

// position describes where the last token is. It names no line if there is only one.
func (r *reader) position() string {
	if before := bytes.Count(r.body[:r.start], []byte("\n")); before > 0 {
		return fmt.Sprintf("line %d", before+1)
	}
	return fmt.Sprintf("byte %d", r.start)
}

// value reads a value into v. most is the largest number of items of an array, 0 for any
// number.
func (r *reader) value(v reflect.Value, where spot, most int) error {
	text := r.next()
	switch kind := v.Kind(); {
	case text[0] == '{' && kind == reflect.Struct:
		return r.object(v, where)
	case text[0] == '[' && kind == reflect.Slice:
		return r.array(v, where, most)
	case text[0] == '{':
		return fmt.Errorf("%w: %s cannot be an object", driver.ErrInvalid, where)
	case text[0] == '[':
		return fmt.Errorf("%w: %s cannot be an array", driver.ErrInvalid, where)
	case text[0] == 'n' && kind != reflect.Pointer:
		return fmt.Errorf("%w: %s is null: leave it out", driver.ErrInvalid, where)
	}
	err := set(v, text)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		hint := ""
		if strings.HasPrefix(wrong.Value, "number ") {
			hint = ": it takes a whole number of 64 bits"
		}
		return fmt.Errorf("%w: %s cannot be a %.100s%s (%s)", driver.ErrInvalid, where, wrong.Value, hint, r.position())
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", driver.ErrInvalid, where, err)
	}
	return nil
}

// set sets v to a text, a number, or another value without parts. The usual ones need no
// package json, which takes several times as long.
func set(v reflect.Value, text []byte) error {
	inner, plain := unquoted(text)
	if text[0] == '-' || '0' <= text[0] && text[0] <= '9' {
		text = integer(text)
	}
	to, reads := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr())
	switch {
	case plain && reads:
		return to.UnmarshalText(inner)
	case plain && v.Kind() == reflect.String:
		v.SetString(string(inner))
		return nil
	case v.CanInt() && !reads:
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && !v.OverflowInt(n) {
			v.SetInt(n)
			return nil
		}
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// unquoted returns what is in a text, if that has no escapes.
func unquoted(text []byte) ([]byte, bool) {
	if text[0] != '"' || bytes.IndexByte(text, '\\') >= 0 {
		return nil, false
	}
	return text[1 : len(text)-1], true
}

func (r *reader) object(v reflect.Value, where spot) error {
	all := membersOf(v.Type())
	seen := make([]bool, len(all.names))
	for {
		text := r.next()
		if text[0] == '}' {
			return nil
		}
		name, plain := unquoted(text)
		if !plain {
			var s string
			_ = json.Unmarshal(text, &s) // it is valid
			name = []byte(s)
		}
		at := slices.IndexFunc(all.names, func(s string) bool { return s == string(name) })
		switch {
		case at < 0:
			return fmt.Errorf("%w: %.100q is not a member of %s (%s); it has: %s", driver.ErrInvalid, name, where, r.position(), strings.Join(all.names, ", "))
		case seen[at]:
			return fmt.Errorf("%w: %s has the member %q twice", driver.ErrInvalid, where, name)
		}
		seen[at] = true
		m := all.fields[at]
		if err := r.value(v.FieldByIndex(m.index), spot{m.where, where.item, where.array}, m.most); err != nil {
			return err
		}
	}
}

// members are the members that a struct has in JSON.
type members struct {
	names  []string
	fields []member
}

type member struct {
	where string // for errors
	index []int
	most  int // items of an array, 0 for any number
}

var byType sync.Map // the members of each type that was read

// membersOf returns the members of a struct and of structs that it embeds.
func membersOf(t reflect.Type) members {
	if known, ok := byType.Load(t); ok {
		return known.(members)
	}
	var all members
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			most, _ := strconv.Atoi(f.Tag.Get("most"))
			all.names = append(all.names, name)
			all.fields = append(all.fields, member{fmt.Sprintf("member %q", name), f.Index, most})
		}
	}
	byType.Store(t, all)
	return all
}

func (r *reader) array(v reflect.Value, where spot, most int) error {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // not nil, as a missing one
	for n := 1; ; n++ {
		begin := r.at
		if r.next()[0] == ']' {
			return nil
		}
		r.at = begin
		if most > 0 && n > most {
			return fmt.Errorf("%w: %w: %s has more than %d", driver.ErrInvalid, ErrTooMany, where, most)
		}
		v.Grow(1)
		v.SetLen(n)
		if err := r.value(v.Index(n-1), spot{item: n, array: where.name}, 0); err != nil {
			return err
		}
	}
}

// integer returns the number in the form that json.Unmarshal accepts for an integer. It
// returns any other number as it is.
func integer(text []byte) []byte {
	const longest = 64 // far more than any integer needs, and quickly computed
	if !bytes.ContainsAny(text, ".eE") && string(text) != "-0" || len(text) > longest {
		return text
	}
	f, _, err := big.ParseFloat(string(text), 10, 8*longest, big.ToZero)
	digits, _, _ := bytes.Cut(bytes.ToLower(text), []byte("e"))
	if err != nil || !f.IsInt() || f.Sign() == 0 && bytes.ContainsAny(digits, "123456789") { // it was too small
		return text
	}
	if n, rounded := f.Int64(); rounded == big.Exact {
		return strconv.AppendInt(nil, n, 10)
	}
	return text
}
