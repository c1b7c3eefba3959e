package model

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var someHolds = []Hold{
	{
		LockID: "a", HoldID: driver.HoldID{1}, Mode: driver.Shared, Limit: 3, Token: 7,
		Details: driver.Details{Owner: "ann", Host: `"h1"`, Comment: "$x <&> \u2028 🔒"},
		Created: 1000, Renewed: 2000, End: 3000, TakeoverDelay: 5 * time.Second, Released: true,
	},
	{LockID: "b", HoldID: driver.HoldID{2}, Token: driver.MaxToken, Created: 1, End: NoEnd, TakeoverDelay: driver.MaxTTL},
	{LockID: "c", HoldID: driver.HoldID{3}, Mode: driver.Shared, Token: 1, End: NoEnd},
	{LockID: "d", HoldID: driver.HoldID{4}, Mode: driver.Shared, Limit: driver.LimitUnknown, Token: 2, End: NoEnd},
}

func TestHoldsRoundTrip(t *testing.T) {
	for _, holds := range [][]Hold{{}, someHolds[:1], someHolds} {
		text, err := EncodeHolds(holds)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeHolds(text)
		if err != nil || !reflect.DeepEqual(back, holds) {
			t.Errorf("wrote %+v as %s, read %+v, error %v", holds, text, back, err)
		}
	}
}

// The text is a format: other programs and later versions read it.
func TestHoldsFormat(t *testing.T) {
	text, err := EncodeHolds(someHolds[:1])
	const want = `[{"lockId":"a","holdId":"010000000000000000000000","mode":"shared","limit":3,"token":7,` +
		`"owner":"ann","host":"\"h1\"","comment":"$x \u003c\u0026\u003e \u2028 🔒",` +
		`"created":1000,"renewed":2000,"end":3000,"takeoverDelayMs":5000,"released":true}]`
	if err != nil || string(text) != want {
		t.Errorf("wrote %s\nwant  %s, error %v", text, want, err)
	}
}

// Unknown fields, as other versions add them, are no damage. They are lost with the next
// change of the record, so fields that decide must not be added in this way.
func TestHoldsWithMoreFields(t *testing.T) {
	const known = `{"lockId":"a","holdId":"010000000000000000000000","mode":"shared","token":7,"created":1000,"end":3000`
	want, err := DecodeHolds([]byte("[" + known + "}]"))
	if err != nil {
		t.Fatalf("read %+v, error %v", want, err)
	}
	for _, more := range []string{
		`"later":{"more":[1]}`,
		`"waits":{"resource":"s","mode":"shared","placeId":"070000000000000000000000","since":1500}`,
		`"waits":{"since":-1}`,
	} {
		got, err := DecodeHolds([]byte("[" + known + "," + more + "}]"))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read %+v, error %v; want %+v", more, got, err, want)
		}
	}
}

func TestDamagedHolds(t *testing.T) {
	const hold = `{"lockId":"a","holdId":"010000000000000000000000","mode":"shared","token":7,"created":1000,"end":3000}`
	if _, err := DecodeHolds([]byte("[" + hold + "]")); err != nil {
		t.Fatalf("the sound one is refused: %v", err)
	}
	edit := func(old, new string) string {
		if !strings.Contains(hold, old) {
			t.Fatalf("no %s to edit", old)
		}
		return "[" + strings.Replace(hold, old, new, 1) + "]"
	}
	for name, text := range map[string]string{
		"empty":              "",
		"null":               "null",
		"null inside":        "[null]",
		"cut off":            "[" + hold[:20],
		"more behind":        "[" + hold + "]]",
		"object":             hold,
		"text":               `"held"`,
		"no lock ID":         edit(`"a"`, `""`),
		"lock ID with NUL":   edit(`"a"`, `"\u0000"`),
		"no hold ID":         edit(`"010000000000000000000000"`, `""`),
		"zero hold ID":       edit(`"01`, `"00`),
		"short hold ID":      edit(`"01`, `"1`),
		"unknown mode":       edit(`shared`, `intent`),
		"mode as number":     edit(`"shared"`, `1`),
		"mode null":          edit(`"shared"`, `null`),
		"no mode":            edit(`"mode":"shared",`, ``),
		"limit negative":     edit(`"token"`, `"limit":-1,"token"`),
		"limit in part":      edit(`"token"`, `"limit":1.5,"token"`),
		"limit, exclusive":   edit(`"shared","token"`, `"exclusive","limit":1,"token"`),
		"token 0":            edit(`:7`, `:0`),
		"token negative":     edit(`:7`, `:-7`),
		"token in part":      edit(`:7`, `:7.5`),
		"token too large":    edit(`:7`, `:9007199254740992`),
		"end 0":              edit(`:3000`, `:0`),
		"end negative":       edit(`:3000`, `:-1`),
		"end beyond reach":   edit(`:3000`, `:9223372036854775806`),
		"end as text":        edit(`:3000`, `:"3000"`),
		"created negative":   edit(`:1000`, `:-1`),
		"renewed negative":   edit(`"end"`, `"renewed":-1,"end"`),
		"delay negative":     edit(`"end"`, `"takeoverDelayMs":-1,"end"`),
		"delay too long":     edit(`"end"`, `"takeoverDelayMs":3153600000001,"end"`),
		"delay that wraps":   edit(`"end"`, `"takeoverDelayMs":18446744073710,"end"`),
		"second one damaged": "[" + hold + `,{}]`,
	} {
		t.Run(name, func(t *testing.T) {
			if holds, err := DecodeHolds([]byte(text)); !errors.Is(err, driver.ErrDamaged) || holds != nil {
				t.Errorf("%s was read as %+v, error %v; want ErrDamaged", text, holds, err)
			}
		})
	}
}

func FuzzDecodeHolds(f *testing.F) {
	for n := range len(someHolds) + 1 {
		text, err := EncodeHolds(someHolds[:n])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		holds, err := DecodeHolds(text)
		if err != nil {
			if !errors.Is(err, driver.ErrDamaged) || holds != nil {
				t.Fatalf("got %+v and error %v", holds, err)
			}
			return
		}
		again, err := EncodeHolds(holds)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", holds, err)
		}
		if back, err := DecodeHolds(again); err != nil || !reflect.DeepEqual(back, holds) {
			t.Fatalf("read %+v, wrote %s, read %+v, error %v", holds, again, back, err)
		}
		// Decisions about any decoded record work, and it ends when it says.
		r := Record{Resource: "r", Token: 1, Holds: holds}
		for _, h := range holds {
			for _, now := range []Time{1, h.End - 1, h.End} {
				if live := now < h.End; live && !h.blocks(now) || h.blocks(now) && h.clear().Until(now) <= 0 {
					t.Errorf("at %d %+v blocks: %v", now, h, h.blocks(now))
				}
				if ss := Statuses(r, now, driver.Filter{Expired: true}); len(ss) != len(holds) {
					t.Errorf("%d statuses of %d holds", len(ss), len(holds))
				}
				q := driver.AcquireRequest{Resource: "r", LockID: "new", HoldID: driver.HoldID{9}, TTL: time.Second}
				if _, _, granted, _ := Acquire(r, now, q); granted && h.blocks(now) {
					t.Errorf("granted at %d despite %+v", now, h)
				}
			}
		}
	})
}
