package redislock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// A damaged record is a named error of all operations, and stays as it is to the byte.
func TestDamage(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	// spoil changes raw, or the array r if the record is an array.
	spoil := func(t *testing.T, key, change string) {
		t.Helper()
		script := fmt.Sprintf(`
			local raw = redis.call('GET', KEYS[1])
			local before, r = raw
			if string.sub(raw, 1, 1) == 'M' then r = cmsgpack.unpack(string.sub(raw, 2)) end
			%s
			if raw == before then raw = 'M' .. cmsgpack.pack(r) end
			redis.call('SET', KEYS[1], raw)
			return 1`, change)
		if err := p.client.Eval(t.Context(), script, []string{key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for kind, changes := range map[string]map[string]string{
		"one hold as it was granted": {
			"a text":                `raw = 'free'`,
			"an empty text":         `raw = ''`,
			"a number":              `raw = '1795300000000000'`,
			"of no known kind":      `raw = 'X' .. string.sub(raw, 2)`,
			"just a kind":           `raw = 'F'`,
			"until is a text":       `raw = 'Fsome day or not.' .. string.sub(raw, 18)`,
			"token is a text":       `raw = string.sub(raw, 1, 17) .. 'some day or not.' .. string.sub(raw, 34)`,
			"until is cut off":      `raw = string.sub(raw, 1, 30)`,
			"hold is cut off":       `raw = string.sub(raw, 1, 40)`,
			"lock ID has no size":   `raw = string.sub(raw, 1, 57) .. 'long' .. string.sub(raw, 62)`,
			"lock ID is larger":     `raw = string.sub(raw, 1, 57) .. '0999' .. string.sub(raw, 62)`,
			"lock ID is empty":      `raw = string.sub(raw, 1, 57) .. '0000' .. string.sub(raw, 63)`,
			"free, and longer":      `raw = 'I' .. string.sub(raw, 2)`,
			"free, and cut off":     `raw = 'I' .. string.sub(raw, 2, 20)`,
			"free, until a text":    `raw = 'I' .. 'some day or not.' .. string.sub(raw, 18, 33)`,
			"free, token is 2^53":   `raw = 'I' .. string.sub(raw, 2, 17) .. '9007199254740992'`,
			"free, token is a text": `raw = 'I' .. string.sub(raw, 2, 17) .. 'some day or not.'`,
		},
		"holds": {
			"cut off":                   `raw = string.sub(raw, 1, -2)`,
			"something follows":         `raw = 'M' .. cmsgpack.pack({}, r)`,
			"queue is a text":           `raw = 'M' .. cmsgpack.pack(r, 'a text')`,
			"queue is a number":         `raw = 'M' .. cmsgpack.pack(r, 5)`,
			"queue of texts":            `raw = 'M' .. cmsgpack.pack(r, { 'a text 10' })`,
			"queue of numbers":          `raw = 'M' .. cmsgpack.pack(r, { 5 })`,
			"just a kind":               `raw = 'M'`,
			"an empty array":            `r = {}`,
			"a map":                     `r = { token = 5 }`,
			"until is false":            `r[2] = false`,
			"until is 0":                `r[2] = 0`,
			"token is a text":           `r[1] = '5'`,
			"token is negative":         `r[1] = -5`,
			"token is 2^53":             `r[1] = 9007199254740992`,
			"hold is a text":            `r[3] = 'a text of 12'`,
			"hold is a number":          `r[3] = 12`,
			"hold is short":             `r[3][12] = nil`,
			"hold ID is a number":       `r[3][1] = 5`,
			"hold ID is short":          `r[3][1] = 'abc'`,
			"lock ID is empty":          `r[3][2] = ''`,
			"lock ID is a number":       `r[3][2] = 5`,
			"lock ID is true":           `r[3][2] = true`,
			"mode is none":              `r[3][3] = 2`,
			"mode is a text":            `r[3][3] = '1'`,
			"shared, without a limit":   `r[3][3] = 1`,
			"limit is negative":         `r[3][3] = 1; r[3].limit = -1`,
			"limit is a text":           `r[3][3] = 1; r[3].limit = '3'`,
			"its token is 0":            `r[3][4] = 0`,
			"its token is a text":       `r[3][4] = '7'`,
			"its token is 2^53":         `r[3][4] = 9007199254740992`,
			"end is false":              `r[3][5] = false`,
			"end is a text":             `r[3][5] = 'soon'`,
			"end is beyond reach":       `r[3][5] = 9007199254740994`,
			"end is before 1970":        `r[3][5] = -1`,
			"delay is negative":         `r[3][6] = -1`,
			"delay is a text":           `r[3][6] = '5'`,
			"released is a text":        `r[3][7] = 'no'`,
			"released is true":          `r[3][7] = true`,
			"beside a sound one":        `r[4] = { 'x' }`,
			"expired, without lock ID":  `r[3][5] = 1; r[3][2] = ''`,
			"expired, of no known mode": `r[3][5] = 1; r[3][3] = 'x'`,
		},
	} {
		for what, change := range changes {
			t.Run(kind+" "+what, func(t *testing.T) {
				name := kind + " " + what
				ref := ask.Granted(t, s, ask.Request(name, "a"))
				if kind == "holds" {
					renewed(t, s, ref, time.Hour)
				}
				key := p.Prefix + name
				spoil(t, key, change)
				before := p.client.Get(t.Context(), key).Val()
				ask.Damaged(t, s, ref)
				if after := p.client.Get(t.Context(), key).Val(); after != before {
					t.Errorf("the key had\n%q\nand has\n%q", before, after)
				}
			})
		}
	}
}

// renewed extends a hold that must exist.
func renewed(t testing.TB, s driver.Store, ref driver.HoldRef, ttl time.Duration) driver.RenewResult {
	t.Helper()
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: ttl}})
	if err != nil || rs[0].Err != nil {
		t.Fatalf("renewal of %q: %v %v", ref.Resource, rs, err)
	}
	return rs[0]
}

// A key with a value of another type counts as damaged, too.
func TestKeyOfAnotherType(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	if err := p.client.HSet(t.Context(), p.Prefix+"r", "a", "b").Err(); err != nil {
		t.Fatal(err)
	}
	ask.Damaged(t, s, driver.HoldRef{Resource: "r", LockID: "a", HoldID: driver.NewHoldID(), Token: 7})
	if got := p.client.HGet(t.Context(), p.Prefix+"r", "a").Val(); got != "b" {
		t.Errorf("the field is %q now", got)
	}
}

// Damage does not affect requests about other keys at the same time in the same run of
// the script.
func TestDamageStaysAlone(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	granted := func(names ...string) (qs []driver.ReleaseRequest) {
		for _, name := range names {
			qs = append(qs, driver.ReleaseRequest{HoldRef: ask.Granted(t, s, ask.Request(name, "a"))})
		}
		return qs
	}
	qs := granted("sound", "damaged", "of another type", "sound, too", "renewed")
	renewed(t, s, qs[4].HoldRef, 2*time.Hour)
	if err := p.client.Set(t.Context(), p.Prefix+"damaged", "no record", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.client.Del(t.Context(), p.Prefix+"of another type").Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.client.HSet(t.Context(), p.Prefix+"of another type", "a", "b").Err(); err != nil {
		t.Fatal(err)
	}
	var renewals []driver.RenewRequest
	for _, q := range qs {
		renewals = append(renewals, driver.RenewRequest{HoldRef: q.HoldRef, TTL: time.Hour})
	}
	var c trips
	p.client.AddHook(&c)
	bad := map[int]bool{1: true, 2: true}
	n := c.of(func() {
		rs, err := s.Renew(t.Context(), renewals)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if errors.Is(r.Err, driver.ErrDamaged) != bad[i] || !bad[i] && (r.Err != nil || r.Left < 50*time.Minute) {
				t.Errorf("renewal of %q: %+v", qs[i].Resource, r)
			}
		}
	})
	// The last request is about a hold that the first one releases.
	qs = append(qs, qs[0])
	n += c.of(func() {
		rs, err := s.Release(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if errors.Is(r.Err, driver.ErrDamaged) != bad[i] || !bad[i] && (r.Err != nil || r.Found == (i == 5)) {
				t.Errorf("release of %q: %+v", qs[i].Resource, r)
			}
		}
	})
	if n > 4 { // the first two give the server the scripts
		t.Errorf("that took %d round trips", n)
	}
}

// Fields that decide nothing may have any value.
func TestHarmlessDamage(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	renewed(t, s, ref, time.Hour)
	if err := p.client.Eval(t.Context(), `
		local r = cmsgpack.unpack(string.sub(redis.call('GET', KEYS[1]), 2))
		for i = 8, 12 do r[3][i] = { 'nonsense' } end
		redis.call('SET', KEYS[1], 'M' .. cmsgpack.pack(r))
		return 1`, []string{p.Prefix + "r"}).Err(); err != nil {
		t.Fatal(err)
	}
	held := ask.Refused(t, s, ask.Request("r", "b"))
	if got := held.Holders[0]; got.Ref() != ref || got.Owner != "" || !got.Created.IsZero() {
		t.Errorf("the holder is %+v", got)
	}
	if !ask.Released(t, s, ref, 0) {
		t.Error("the hold was not found")
	}
}

// Records may contain notes about what a holder waits for. They are ignored.
func TestNoteOfAHold(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	ref := ask.Granted(t, s, ask.Shared(ask.Request("r", "a"), 2))
	if err := p.client.Eval(t.Context(), `
		local r = cmsgpack.unpack(string.sub(redis.call('GET', KEYS[1]), 2))
		r[3].waits = { 'another', 1, 3, '0123456789abcdef01234567', 1795300000000000 }
		redis.call('SET', KEYS[1], 'M' .. cmsgpack.pack(r))
		return 1`, []string{p.Prefix + "r"}).Err(); err != nil {
		t.Fatal(err)
	}
	held := ask.Refused(t, s, ask.Request("r", "b"))
	if len(held.Holders) != 1 || held.Holders[0].Ref() != ref || held.Holders[0].Limit != 2 {
		t.Errorf("the holders are %+v", held.Holders)
	}
	ask.Granted(t, s, ask.Shared(ask.Request("r", "b"), 2))
	renewed(t, s, ref, time.Hour)
	if !ask.Released(t, s, ref, 0) {
		t.Error("the hold was not found")
	}
}
