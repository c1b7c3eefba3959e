package access

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	hashA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hashB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestPolicyRefused(t *testing.T) {
	// one is a file with one caller, whose members are what is between the braces.
	one := func(members string) string { return `{"callers":[{` + members + `}]}` }
	rule := func(members string) string {
		return one(`"name":"a","tokenSha256":["` + hashA + `"],"rules":[{` + members + `}]`)
	}
	for name, c := range map[string]struct{ text, wrong string }{
		"empty":                      {``, "not complete JSON"},
		"blank":                      {"\n", "not complete JSON"},
		"half":                       {`{"callers":[{"name":"a"`, "not complete JSON"},
		"no object":                  {`[]`, "cannot be an array"},
		"null":                       {`null`, "is null"},
		"no callers":                 {`{}`, `no member "callers"`},
		"callers null":               {`{"callers":null}`, `"callers" is null`},
		"callers in other case":      {`{"Callers":[]}`, `"Callers" is not a member`},
		"callers twice":              {`{"callers":[],"callers":[]}`, "twice"},
		"two files":                  {`{"callers":[]}{"callers":[]}`, "after top-level value"},
		"an unknown member":          {`{"callers":[],"admin":true}`, `"admin" is not a member`},
		"not UTF-8":                  {"{\"callers\":[{\"name\":\"\xff\"}]}", "not UTF-8"},
		"a byte-order mark":          {"\ufeff{\"callers\":[]}", "not complete JSON"},
		"an unknown member inside":   {one(`"name":"a","rule":[]`), `"rule" is not a member of item 1 of member "callers" (byte 24); it has: name, tokenSha256,`},
		"no name":                    {one(`"tokenSha256":["` + hashA + `"]`), "name of a caller"},
		"a name with a colon":        {one(`"name":"a:b","tokenSha256":["` + hashA + `"]`), "name of a caller"},
		"a name with a line feed":    {one(`"name":"a\n","tokenSha256":["` + hashA + `"]`), "name of a caller"},
		"a name that is too long":    {one(`"name":"` + strings.Repeat("a", 65) + `","tokenSha256":["` + hashA + `"]`), "name of a caller"},
		"nothing to be known by":     {one(`"name":"a","rules":[]`), "needs tokenSha256 or certificateNames"},
		"no hash":                    {one(`"name":"a","tokenSha256":["secret"]`), "64 hex digits"},
		"an empty hash":              {one(`"name":"a","tokenSha256":[""]`), "64 hex digits"},
		"a text for an array":        {one(`"name":"a","tokenSha256":"` + hashA + `"`), "cannot be a string"},
		"a hash twice":               {one(`"name":"a","tokenSha256":["` + hashA + `","` + strings.ToUpper(hashA) + `"]`), "twice"},
		"a URI that is written so":   {one(`"name":"a","certificateNames":["HTTPS://a/"]`), "no URI as certificates have it"},
		"a URI without a host":       {one(`"name":"a","certificateNames":["spiffe:"]`), "no URI"},
		"a wildcard":                 {one(`"name":"a","certificateNames":["*.example.com"]`), "neither a URI nor the name of a host"},
		"an empty certificate name":  {one(`"name":"a","certificateNames":[""]`), "neither a URI nor"},
		"a certificate name twice":   {one(`"name":"a","certificateNames":["h","h"]`), "twice"},
		"a rule without resources":   {rule(`"may":["lock"]`), "matches no resource"},
		"a rule without rights":      {rule(`"resources":"a"`), "gives no right"},
		"a rule with no rights":      {rule(`"resources":"a","may":[]`), "gives no right"},
		"an unknown verb":            {rule(`"resources":"a","may":["admin"]`), `may has "admin"`},
		"a verb in other case":       {rule(`"resources":"a","may":["Lock"]`), `may has "Lock"`},
		"a verb twice":               {rule(`"resources":"a","may":["lock","lock"]`), `may has "lock"`},
		"a star in the middle":       {rule(`"resources":"a*b","may":["lock"]`), "not its only one"},
		"a TTL without the lock":     {rule(`"resources":"a","may":["look"],"maxTtl":"1h"`), "not the right to lock"},
		"a TTL in days":              {rule(`"resources":"a","may":["lock"],"maxTtl":"1d"`), "maxTtl"},
		"a TTL as a number":          {rule(`"resources":"a","may":["lock"],"maxTtl":3600`), "cannot be a number"},
		"a negative TTL":             {rule(`"resources":"a","may":["lock"],"maxTtl":"-1ms"`), "maxTtl"},
		"no TTL at all":              {rule(`"resources":"a","may":["lock"],"maxTtl":"0s"`), "maxTtl"},
		"a TTL of more than a life":  {rule(`"resources":"a","may":["lock"],"maxTtl":"900000h"`), "maxTtl"},
		"forever in other case":      {rule(`"resources":"a","may":["lock"],"maxTtl":"Forever"`), "maxTtl"},
		"two callers of one name":    {`{"callers":[{"name":"a","tokenSha256":["` + hashA + `"]},{"name":"a","tokenSha256":["` + hashB + `"]}]}`, "same name"},
		"two callers of one token":   {`{"callers":[{"name":"a","tokenSha256":["` + hashA + `"]},{"name":"b","tokenSha256":["` + hashA + `"]}]}`, "twice"},
		"two callers of one name in": {`{"callers":[{"name":"a","certificateNames":["h"]},{"name":"b","certificateNames":["h"]}]}`, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parsePolicy([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v, want one with %q", err, c.wrong)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error repeats what may be a token: %v", err)
			}
		})
	}
}

func TestRights(t *testing.T) {
	p, err := parsePolicy([]byte(`{"callers": [{
		"name": "billing", "tokenSha256": ["` + hashA + `", "` + hashB + `"], "certificateNames": ["spiffe://example/billing", "Host-1.example.com"],
		"rules": [
			{"resources": "billing/*", "may": ["lock", "look"]},
			{"resources": "billing/slow", "may": ["lock"], "maxTtl": "72h"},
			{"resources": "billing/short", "may": ["lock"], "maxTtl": "1s"},
			{"resources": "leader", "may": ["lock", "force"], "maxTtl": "forever"},
			{"resources": "*", "may": ["look"]}
		]}, {"name": "nobody", "certificateNames": ["nobody"], "rules": []}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := p.callers["billing"]
	for _, c := range []struct {
		resource          string
		lock, look, force bool
		maxTTL            time.Duration
	}{
		{"billing/a", true, true, false, 24 * time.Hour},
		{"billing/slow", true, true, false, 72 * time.Hour},
		{"billing/short", true, true, false, 24 * time.Hour}, // the wider rule gives more
		{"billing", false, true, false, 0},
		{"Billing/a", false, true, false, 0},
		{"leader", true, true, true, driver.Forever},
		{"leader/a", false, true, false, 0},
		{"", false, true, false, 0},
	} {
		if m.may(Lock, c.resource) != c.lock || m.may(Look, c.resource) != c.look || m.may(Force, c.resource) != c.force {
			t.Errorf("%q: may lock %v, look %v, force %v", c.resource, m.may(Lock, c.resource), m.may(Look, c.resource), m.may(Force, c.resource))
		}
		if got := m.maxTTL(c.resource); got != c.maxTTL {
			t.Errorf("%q: TTL of %v at most, want %v", c.resource, got, c.maxTTL)
		}
	}
	if m.mayAll(Lock) || !m.mayAll(Look) || m.mayAll(Force) {
		t.Error("only look is given on all resources")
	}
	if n := p.callers["nobody"]; n.may(Lock, "a") || n.may(Look, "a") || n.mayAll(Look) || n.maxTTL("a") != 0 {
		t.Error("a caller without rules may do something")
	}
}

func TestByToken(t *testing.T) {
	var file fileEntry
	var tokens []string
	for i := range 100 {
		token, entry, err := NewToken(fmt.Sprintf("caller-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
		var c callerEntry
		if err := json.Unmarshal([]byte(entry), &c); err != nil {
			t.Fatal(err)
		}
		file.Callers = append(file.Callers, c)
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, token := range tokens {
		if m := p.byToken(hashToken(token)); m == nil || m.entry.Name != fmt.Sprintf("caller-%d", i) {
			t.Errorf("token %d is that of %v", i, m)
		}
	}
	other := hashToken(tokens[0])
	other[31] ^= 1
	if m := p.byToken(other); m != nil {
		t.Errorf("a token with another last bit is that of %s", m.entry.Name)
	}
	if m := new(policy).byToken(other); m != nil {
		t.Errorf("a token of an empty file is that of %s", m.entry.Name)
	}
}

func BenchmarkByToken(b *testing.B) {
	p := new(policy)
	for i := range 4000 {
		p.tokens = append(p.tokens, tokenOwner{sum: hashToken(fmt.Sprint(i))})
	}
	sum := hashToken("none")
	for b.Loop() {
		if p.byToken(sum) != nil {
			b.Fatal("found")
		}
	}
}

// A file that is accepted says the same when it is written again, and gives each right by
// a rule of its own.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"callers":[{"name":"a","tokenSha256":["`+hashA+`"],"rules":[{"resources":"r/*","may":["lock","look"],"maxTtl":"forever"}]}]}`), "r/a")
	f.Add([]byte(`{"callers":[{"name":"a","certificateNames":["spiffe://h/a"],"rules":[{"resources":"*","may":["force"]}]}]}`), "r")
	f.Add([]byte(`{"callers":[]}`), "")
	f.Fuzz(func(t *testing.T, text []byte, resource string) {
		p, err := parsePolicy(text)
		if err != nil {
			return
		}
		var file fileEntry
		for _, m := range p.callers {
			file.Callers = append(file.Callers, m.entry)
			if ValidName(m.entry.Name) != nil || len(m.entry.TokenSHA256)+len(m.entry.CertificateNames) == 0 {
				t.Errorf("caller %+v is accepted", m.entry)
			}
			for v := Lock; v <= Force; v++ {
				if m.may(v, resource) && len(m.rules) == 0 {
					t.Errorf("%s may %d without a rule", m.entry.Name, v)
				}
				if m.mayAll(v) && !m.may(v, resource) {
					t.Errorf("%s may %d all, but not %q", m.entry.Name, v, resource)
				}
			}
			if (m.maxTTL(resource) > 0) != m.may(Lock, resource) {
				t.Errorf("%s has a TTL of %v on %q", m.entry.Name, m.maxTTL(resource), resource)
			}
		}
		for by, m := range p.known {
			if by.certificate == "" && p.byToken(by.token) != m || !slices.Contains(append(m.entry.CertificateNames, ""), by.certificate) {
				t.Errorf("%x %q is not that of %s", by.token, by.certificate, m.entry.Name)
			}
		}
		if file.Callers == nil {
			file.Callers = []callerEntry{}
		}
		again, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		q, err := parsePolicy(again)
		if err != nil || len(q.callers) != len(p.callers) || len(q.tokens) != len(p.tokens) {
			t.Errorf("%s became %s: %v", text, again, err)
		}
	})
}
