package pglock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// Damages are done to the one hold of a record, by a patch of its fields, or to all
// of the holds.
var damages = map[string]struct{ patch, whole string }{
	"no array":          {whole: `{}`},
	"a text":            {whole: `"[]"`},
	"null":              {whole: `null`},
	"holds are numbers": {whole: `[7]`},
	"holds are arrays":  {whole: `[[{"lockId": "a"}]]`},
	"holds are null":    {whole: `[null]`},
	"an empty hold":     {whole: `[{}]`},
	"one of two":        {whole: `[{"end":9000000000000000,"mode":"exclusive","token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":1},{"lockId":"b"}]`},
	"lock ID empty":     {patch: `{"lockId": ""}`},
	"lock ID null":      {patch: `{"lockId": null}`},
	"lock ID a number":  {patch: `{"lockId": 7}`},
	"lock ID an array":  {patch: `{"lockId": ["a"]}`},
	"hold ID empty":     {patch: `{"holdId": ""}`},
	"hold ID short":     {patch: `{"holdId": "0123"}`},
	"hold ID zero":      {patch: `{"holdId": "000000000000000000000000"}`},
	"hold ID an array":  {patch: `{"holdId": ["0123456789abcdef01234567"]}`},
	"mode unknown":      {patch: `{"mode": "exclusiv"}`},
	"mode an array":     {patch: `{"mode": ["exclusive"]}`},
	"mode null":         {patch: `{"mode": null}`},
	"token zero":        {patch: `{"token": 0}`},
	"token negative":    {patch: `{"token": -1}`},
	"token too large":   {patch: `{"token": 9007199254740992}`},
	"token a text":      {patch: `{"token": "7"}`},
	"token in parts":    {patch: `{"token": 7.5}`},
	"created negative":  {patch: `{"created": -1}`},
	"created a text":    {patch: `{"created": "now"}`},
	"created too large": {patch: `{"created": 1e300}`},
	"renewed negative":  {patch: `{"renewed": -1}`},
	"renewed too large": {patch: `{"renewed": 1e300}`},
	"end zero":          {patch: `{"end": 0}`},
	"end too large":     {patch: `{"end": 92233720368547758070}`},
	"end a text":        {patch: `{"end": "2031-05-06"}`},
	"end in parts":      {patch: `{"end": 9000000000000000.5}`},
	"delay negative":    {patch: `{"takeoverDelayMs": -1}`},
	"delay too long":    {patch: `{"takeoverDelayMs": 3153600000001}`},
	"delay a text":      {patch: `{"takeoverDelayMs": "1"}`},
	"released a text":   {patch: `{"released": "true"}`},
	"limit not shared":  {patch: `{"limit": 1}`},
	"limit negative":    {patch: `{"mode": "shared", "limit": -1}`},
	"limit a text":      {patch: `{"mode": "shared", "limit": "1"}`},
	"limit in parts":    {patch: `{"mode": "shared", "limit": 1.5}`},
	"limit too large":   {patch: `{"mode": "shared", "limit": 9223372036854775808}`},
}

// A damaged record is an error for all who ask, and stays as it is.
func TestDamage(t *testing.T) {
	p := newStore(t, newDatabase(t))
	for name, c := range damages {
		t.Run(name, func(t *testing.T) {
			ref := ask.Granted(t, p, ask.Request(name, "a"))
			if c.whole != "" {
				p.exec(t, "UPDATE SCHEMA.locks SET holds = $2::jsonb WHERE resource = $1", name, c.whole)
			} else {
				p.exec(t, "UPDATE SCHEMA.locks SET holds = jsonb_build_array(holds->0 || $2::jsonb) WHERE resource = $1", name, c.patch)
			}
			before := p.text(t, name)
			ask.Damaged(t, p, ref)
			if after := p.text(t, name); after != before {
				t.Errorf("the row was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// What package model reads, the functions decide on, and what it does not read
// they refuse, but for details, by which nothing is decided.
func TestSoundAsInModel(t *testing.T) {
	p := newStore(t, newDatabase(t))
	const hold = `{"end":9000000000000000,"mode":"exclusive","token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":1}`
	texts := []string{`[]`, `[` + hold + `]`, `[` + hold + `,` + hold + `]`, `[{"mode":"shared","token":9007199254740991,` +
		`"holdId":"0123456789abcdef01234567","lockId":"a","created":0,"takeoverDelayMs":3153600000000,"released":true,"more":{}}]`,
		`[{"end":12160799254740991,"mode":"shared","token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":0,"released":false}]`,
		`[{"mode":"shared","token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":9223372036854775807,"renewed":9223372036854775807}]`,
		`[{"mode":"shared","token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":1,"waits":{"since":-1}}]`,
		`[{"mode":"shared","limit":0,"token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":0}]`,
		`[{"mode":"shared","limit":9223372036854775807,"token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":0}]`,
		`[{"end":12160799254740992,"mode":"shared","token":1,"holdId":"0123456789abcdef01234567","lockId":"a","created":0}]`}
	for _, c := range damages {
		if c.whole != "" {
			texts = append(texts, c.whole)
			continue
		}
		var patched string
		if err := p.near.QueryRow(t.Context(), "SELECT jsonb_build_array($1::jsonb || $2::jsonb)::text", hold, c.patch).Scan(&patched); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, patched)
	}
	for _, text := range texts {
		var sound bool
		if err := p.near.QueryRow(t.Context(), "SELECT "+p.name+".sound($1::jsonb)", text).Scan(&sound); err != nil {
			t.Fatal(err)
		}
		_, err := model.DecodeHolds([]byte(text))
		if sound && err != nil || !sound && err == nil {
			t.Errorf("%s: sound %v, the model says %v", text, sound, err)
		}
		if err != nil && !errors.Is(err, driver.ErrDamaged) {
			t.Error(err)
		}
	}
}

// A damaged record costs the others of a batch nothing.
func TestDamageInBatch(t *testing.T) {
	p := newStore(t, newDatabase(t))
	refs := []driver.HoldRef{ask.Granted(t, p, ask.Request("a", "a")), ask.Granted(t, p, ask.Request("b", "b"))}
	for name, damage := range map[string]string{
		"a time":           `holds = jsonb_set(holds, '{0,renewed}', '1e300')`,
		"the last version": `touched = 9223372036854775807`,
	} {
		t.Run(name, func(t *testing.T) {
			p.exec(t, "UPDATE SCHEMA.locks SET "+damage+" WHERE resource = 'a'")
			rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: refs[0], TTL: time.Hour}, {HoldRef: refs[1], TTL: time.Hour}})
			if err != nil || rs[1].Err != nil || rs[0].Err != nil && !errors.Is(rs[0].Err, driver.ErrDamaged) {
				t.Errorf("renewed %+v, %v", rs, err)
			}
			if _, err := p.Sweep(t.Context(), driver.SweepRequest{}); err != nil {
				t.Error(err)
			}
			p.exec(t, "UPDATE SCHEMA.locks SET touched = 1, holds = holds #- '{0,renewed}'")
		})
	}
}

// If the tokens are used up, they do not start again.
func TestTokensUsedUp(t *testing.T) {
	p := newStore(t, newDatabase(t))
	ref := ask.Granted(t, p, ask.Request("r", "a"))
	release(t, p, true, ref)
	p.exec(t, "UPDATE SCHEMA.locks SET token = 9007199254740990")
	last := ask.Granted(t, p, ask.Request("r", "a"))
	if last.Token != driver.MaxToken {
		t.Errorf("token %d", last.Token)
	}
	release(t, p, true, last)
	before := p.text(t, "r")
	if _, err := p.Acquire(t.Context(), ask.Request("r", "a")); !errors.Is(err, driver.ErrDamaged) {
		t.Errorf("error %v", err)
	}
	if after := p.text(t, "r"); after != before {
		t.Errorf("the row was %s and is %s", before, after)
	}
}

// Holds once had notes of what their holders wait for. They are ignored.
func TestNoteOfAHold(t *testing.T) {
	p := newStore(t, newDatabase(t))
	ref := ask.Granted(t, p, ask.Request("r", "a"))
	p.exec(t, `UPDATE SCHEMA.locks SET holds = jsonb_set(holds, '{0,waits}',
		'{"resource": "another", "mode": "shared", "limit": 3, "placeId": "0123456789abcdef01234567", "since": 1795300000000000}')`)
	if held := ask.Refused(t, p, ask.Request("r", "b")); len(held.Holders) != 1 || held.Holders[0].Ref() != ref {
		t.Errorf("the holders are %+v", held.Holders)
	}
	rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err != nil || rs[0].Err != nil {
		t.Errorf("renewed %+v, %v", rs, err)
	}
	release(t, p, true, ref)
}
