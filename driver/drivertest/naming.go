package drivertest

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

var naming = []subtest{
	{"S36_names", names},
	{"S36_names_that_look_alike", lookAlikes},
}

// oddNames are valid names that have caused errors in stores.
var oddNames = []string{
	"a", " ", "\t", "a b", "trailing ", " leading", "/", "a/b//c/", "..", "a.b.c", ".", "_id", "$", "$where", "$$NOW", "$exclusive.lockId",
	`"`, `'`, "`", `\`, `\u0000`, `a\"b`, `it's`, "'; DROP TABLE holds; --", "{}", `{"$gt":""}`, "[1]", "null", "true", "0", "-1", "1e9",
	"%", "%00", "%s", "_", "*", "?", "#", "&=+", "<b>", "a:b", "user:pass@host", "line\nbreak", "\r\n", "\x01\x1f\x7f",
	"ärger", "A\u030arger", "日本語", "עברית", "🔒", "👩‍👩‍👧‍👦", "\u200b", "\ufeffbom", "\u202ertl", "\U0010ffff", "\ufffd",
}

// Names of every kind are returned unchanged, as resource, lock ID and details, in records,
// filters, batches and signals.
func names(b *bench) {
	long := strings.Repeat("x", driver.MaxName)
	wide := strings.Repeat("🔒", driver.MaxName/len("🔒"))
	all := append([]string{long, wide, long[1:] + "y", long[1:] + "z"}, oddNames...)
	var renewals []driver.RenewRequest
	for i, name := range all {
		q := b.request(name, all[len(all)-1-i])
		q.Details = driver.Details{Owner: name, Host: name, Comment: name}
		h := b.acquire(q)
		got := b.list(driver.Filter{Resource: name, LockID: q.LockID, Owner: name})
		if len(got) != 1 || got[0].Ref() != h.HoldRef || got[0].Details != q.Details {
			b.t.Errorf("%q was returned as %+v", name, got)
		}
		b.refused(b.request(name, "another"))
		renewals = append(renewals, driver.RenewRequest{HoldRef: h.HoldRef, TTL: b.long})
	}
	if n := len(b.list(driver.Filter{})); n != len(all) {
		b.t.Errorf("list shows %d holds of %d names", n, len(all))
	}
	for i, r := range b.renewAll(renewals) {
		if r.Err != nil {
			b.t.Errorf("renewal of %q: %v", all[i], r.Err)
		}
	}
	for i, name := range all {
		signals, watches := b.watch(name)
		b.found(b.release(renewals[i].HoldRef, 0), true, fmt.Sprintf("release of %q", name))
		if watches {
			b.wakes(signals, fmt.Sprintf("release of %q", name))
		}
		b.acquire(b.request(name, "another"))
	}
}

// Names that differ by case, by trailing spaces or by Unicode form are different resources
// and different lock IDs.
func lookAlikes(b *bench) {
	for _, alike := range [][]string{
		{"lock", "Lock", "LOCK"},
		{"lock ", "lock  ", "lock\t"},
		{"\u00e9", "e\u0301"},
		{"stra\u00dfe", "strasse"},
		{"i", "\u0131", "I", "\u0130"},
		{"1", "01", "1.0"},
		{"a/b", "a//b", "a/b/"},
	} {
		for _, name := range alike {
			b.acquire(b.request(name, "a"))
		}
		h := b.acquire(b.request("IDs "+alike[0], alike[0]))
		for _, name := range alike[1:] {
			ref := h.HoldRef
			ref.LockID = name
			b.lost(ref)
			b.found(b.release(ref, 0), false, fmt.Sprintf("release by %q of a hold by %q", name, alike[0]))
			if held := b.refusal(b.request(h.Resource, name)); held.BySelf {
				b.t.Errorf("%q and %q are treated as the same name", name, alike[0])
			}
		}
		b.live(h)
	}
}
