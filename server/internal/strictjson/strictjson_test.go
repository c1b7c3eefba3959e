package strictjson_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/internal/strictjson"
)

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct{ body, wrong string }{
		"a typo":                  {`{"resource":"r","limits":2}`, `"limits" is not a member of the body (byte 16); it has: resource, `},
		"other case":              {`{"resource":"r","Limit":2}`, `"Limit" is not a member of the body`},
		"a typo in line 3":        {"{\n\"resource\":\"r\",\n\"ttl\":1}", `(line 3)`},
		"half in line 2":          {"{\"resource\":\n\"r", `(line 2)`},
		"no number in line 2":     {"{\"resource\":\n5}", `cannot be a number (line 2)`},
		"doubled":                 {`{"resource":"r","resource":"s"}`, `member "resource" twice`},
		"doubled by an escape":    {`{"resource":"r","\u0072esource":"s"}`, `member "resource" twice`},
		"null":                    {`{"resource":"r","limit":null}`, `member "limit" is null`},
		"null body":               {`null`, `the body is null`},
		"empty":                   {``, `not complete JSON`},
		"half":                    {`{"resource":"r"`, `not complete JSON`},
		"more":                    {`{"resource":"r"}{}`, `after top-level value (byte 17)`},
		"NaN":                     {`{"resource":"r","ttlMs":NaN}`, `not complete JSON`},
		"a fraction":              {`{"resource":"r","ttlMs":1.5}`, `"ttlMs" cannot be a number 1.5: it takes a whole number`},
		"a small exponent":        {`{"resource":"r","ttlMs":1e-3}`, `"ttlMs" cannot be a number 1e-3`},
		"a tiny exponent":         {`{"resource":"r","ttlMs":1e-999999999}`, `"ttlMs" cannot be a number 1e-999999999`},
		"a large exponent":        {`{"resource":"r","ttlMs":1e1000000000}`, `"ttlMs" cannot be a number`},
		"just too large":          {`{"resource":"r","ttlMs":9223372036854775808.0}`, `"ttlMs" cannot be a number`},
		"a long fraction":         {`{"resource":"r","ttlMs":1.` + strings.Repeat("0", 100_000) + `}`, `"ttlMs" cannot be a number`},
		"a huge number":           {`{"resource":"r","ttlMs":99999999999999999999}`, `"ttlMs" cannot be a number`},
		"text for a number":       {`{"resource":"r","ttlMs":"1"}`, `"ttlMs" cannot be a string`},
		"an array for a text":     {`{"resource":["r"]}`, `member "resource" cannot be an array`},
		"an object for a text":    {`{"resource":{"a":1}}`, `member "resource" cannot be an object`},
		"an array":                {`[{"resource":"r"}]`, `the body cannot be an array`},
		"not UTF-8":               {"{\"resource\":\"\xff\"}", `not UTF-8`},
		"half a surrogate":        {`{"resource":"\ud800x"}`, `half a surrogate pair`},
		"the other half":          {`{"resource":"\\\udc00"}`, `half a surrogate pair`},
		"two first halves":        {`{"resource":"\ud800\ud800"}`, `half a surrogate pair`},
		"a hold ID that is short": {`{"resource":"r","holdId":"00"}`, `hold ID has 2 characters`},
		"a mode":                  {`{"resource":"r","mode":"Shared"}`, `no such mode: "Shared"; it is exclusive or shared`},
	} {
		t.Run(name, func(t *testing.T) {
			var r wire.AcquireRequest
			err := strictjson.Decode([]byte(c.body), &r)
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v, want ErrInvalid with %q", err, c.wrong)
			}
		})
	}
	err := strictjson.Decode([]byte(`{"holds":[{"resource":"r","token":1.5}]}`), new(wire.RenewRequest))
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), `: member "token" of item 1 of member "holds" cannot be a number 1.5: `) {
		t.Errorf("a member that a Go struct embeds: error %v", err)
	}
	err = strictjson.Decode([]byte(`{"resource":"r","holdId":"0123456789abcdef01234567"}`), new(wire.RenewRequest))
	if err == nil || !strings.Contains(err.Error(), `"resource" is not a member of the body (byte 1); it has: holds`) {
		t.Errorf("a hold that is not in holds: error %v", err)
	}
	err = strictjson.Decode([]byte(`{"holds":[{},{"ttl":1}]}`), new(wire.RenewRequest))
	if err == nil || !strings.Contains(err.Error(), `"ttl" is not a member of item 2 of member "holds"`) {
		t.Errorf("a typo in an item: error %v", err)
	}
	deep := strings.Repeat("[", 1_000_000)
	if err := strictjson.Decode([]byte(`{"holds":`+deep), new(wire.RenewRequest)); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a million arrays: error %v", err)
	}
}

// A whole number is an integer in any notation, as in JSON Schema, and no digit of it is
// lost.
func TestDecodeWholeNumbers(t *testing.T) {
	for text, want := range map[string]uint64{
		"126.0": 126, "1.26e2": 126, "1260E-1": 126, "3e4": 30000, "0.0": 0, "-0": 0, "-0.0": 0, "0e5": 0,
		"9007199254740991.0": 1<<53 - 1, "9.007199254740991e15": 1<<53 - 1, "9007199254740993.00": 1<<53 + 1,
	} {
		body := `{"holds":[{"resource":"126.0","token":` + text + `},{"ttlMs":` + text + `}]}`
		var r wire.RenewRequest
		if err := strictjson.Decode([]byte(body), &r); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if a, b := r.Holds[0], r.Holds[1]; a.Resource != "126.0" || a.Token != want || uint64(b.TTLMs) != want {
			t.Errorf("%s became %+v and %+v", text, a, b)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	item := `{"resource":"jobs/nightly","lockId":"11ae783825e0264f9b86d94c","holdId":"6f1d0c6b0a4e4bb29a52f1c7","token":1795567297125399,"ttlMs":30000}`
	for name, n := range map[string]int{"one": 1, "batch": wire.MaxBatch} {
		body := []byte(`{"holds":[` + strings.Repeat(item+",", n-1) + item + `]}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := strictjson.Decode(body, new(wire.RenewRequest)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Too many items are refused before they take memory.
func TestTooManyItems(t *testing.T) {
	body := func(n int) []byte { return []byte(`{"holds":[` + strings.Repeat(`{},`, n-1) + `{}]}`) }
	for _, v := range []any{new(wire.RenewRequest), new(wire.ReleaseRequest)} {
		if err := strictjson.Decode(body(wire.MaxBatch), v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
		if err := strictjson.Decode(body(wire.MaxBatch+1), v); !errors.Is(err, strictjson.ErrTooMany) || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%T: error %v", v, err)
		}
	}
	huge := body(5_000_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := strictjson.Decode(huge, new(wire.RenewRequest)); !errors.Is(err, strictjson.ErrTooMany) {
		t.Errorf("error %v", err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 {
		t.Errorf("it took %d bytes", took)
	}
}

func TestDecodeAll(t *testing.T) {
	const body = ` {"resource":"\ud83d\ude00\\ud800","holdId":"0123456789abcdef01234567","lockId":"l","mode":"shared","limit":2,
		"ttlMs":-1,"waitMs":5,"fair":true,"takeoverDelayMs":6,"owner":"o","host":"h","comment":"c","placeId":"0123456789abcdef01234569"} `
	var r wire.AcquireRequest
	if err := strictjson.Decode([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if r.Resource != `😀\ud800` {
		t.Errorf("resource %q", r.Resource)
	}
	for i, v := 0, reflect.ValueOf(r); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not read", v.Type().Field(i).Name)
		}
	}
	if err := strictjson.Decode([]byte(`{"idleMs":null}`), new(wire.SweepRequest)); err != nil {
		t.Errorf("null where it means none: %v", err)
	}
}

// A decoded value means the same when it is encoded again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"resource":"r","mode":"shared","limit":2,"ttlMs":-1}`))
	f.Add([]byte(`{"holds":[{"resource":"\ud83d\ude00","lockId":"l","holdId":"0123456789abcdef01234567","token":9007199254740991,"ttlMs":1}]}`))
	f.Add([]byte(`{"holds":[{"resource":"r","placeId":"0123456789abcdef01234567","afterMs":1}]}`))
	f.Add([]byte(`{"resource":"r","holdId":"0123456789abcdef01234567","token":1,"reason":"it is stuck"}`))
	f.Add([]byte(`{"idleMs":1,"most":2}`))
	f.Add([]byte(`{"idleMs":1.0,"most":20e-1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range []any{new(wire.AcquireRequest), new(wire.RenewRequest), new(wire.ReleaseRequest), new(wire.ForceRequest), new(wire.SweepRequest)} {
			if strictjson.Decode(body, v) != nil {
				continue
			}
			again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if err := strictjson.Decode(text, again); err != nil {
				t.Fatalf("%s became %s: %v", body, text, err)
			}
			twice, err := json.Marshal(again)
			if err != nil || string(twice) != string(text) {
				t.Errorf("%s became %s and then %s", body, text, twice)
			}
		}
	})
}

// Each half of a pair is found, whatever is around it.
func TestHalvesOfPairs(t *testing.T) {
	paired := regexp.MustCompile(`^(?:[^\\]|\\[^u]|\\u[^dD]|\\u[dD](?:[0-7]|[89abAB]..\\u[dD][c-fC-F]))*$`)
	parts := []string{`\ud800`, `\uDBff`, `\udc00`, `\uDFFF`, `\ud7ff`, `\ue000`, `\\`, `\n`, `u`, `d8`, `\u2028`}
	random, wrong := rand.New(rand.NewPCG(1, 2)), 0
	for range 20_000 {
		text := ""
		for range random.IntN(5) {
			text += parts[random.IntN(len(parts))]
		}
		var q wire.AcquireRequest
		err := strictjson.Decode([]byte(`{"resource":"`+text+`"}`), &q)
		if want := paired.MatchString(text); want != (err == nil) {
			t.Fatalf("%s: %v", text, err)
		} else if !want {
			wrong++
		}
	}
	if wrong < 1000 {
		t.Errorf("only %d are wrong", wrong)
	}
}
