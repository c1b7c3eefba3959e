package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestNewToken(t *testing.T) {
	token, entry, err := NewToken("billing")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(token, "hf_") || len(token) != 61 || checkToken(token) != nil {
		t.Errorf("the token has %d characters: %v", len(token), checkToken(token))
	}
	if strings.Contains(entry, token) || strings.Contains(entry, "\n") {
		t.Errorf("the entry has the token, or several lines: %s", entry)
	}
	// Who writes the file by hand hashes the token with sha256sum.
	if hash := fmt.Sprintf("%x", sha256.Sum256([]byte(token))); !strings.Contains(entry, hash) {
		t.Errorf("the hash of the token is %s, the entry is %s", hash, entry)
	}
	p, err := parsePolicy([]byte(`{"callers":[` + entry + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if m := p.byToken(hashToken(token)); m == nil || m.entry.Name != "billing" || m.may(Look, "billing") {
		t.Errorf("the token is that of %v", m)
	}
	if other, _, _ := NewToken("billing"); other == token {
		t.Error("two tokens are the same")
	}
	for _, name := range []string{"", "a b", "a:b", "ä", "a\n", strings.Repeat("a", 65)} {
		if _, _, err := NewToken(name); err == nil {
			t.Errorf("name %q is accepted", name)
		}
	}
}

func TestCheckToken(t *testing.T) {
	token, _, err := NewToken("a")
	if err != nil {
		t.Fatal(err)
	}
	swapped := func(i, j int) string {
		b := []byte(token)
		b[i], b[j] = b[j], b[i]
		return string(b)
	}
	i := 3
	for token[i] == token[i+1] {
		i++
	}
	// The last character has two bits that say nothing: they must be 0.
	last := []byte(token)
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	last[60] = alphabet[strings.IndexByte(alphabet, last[60])|1]
	for name, wrong := range map[string]string{
		"empty":         "",
		"prefix":        "hf_",
		"no prefix":     token[3:],
		"cut off":       token[:60],
		"longer":        token + "a",
		"two swapped":   swapped(i, i+1),
		"capitals":      strings.ToUpper(token),
		"line feed":     token + "\n",
		"line feed in":  token[:30] + "\n" + token[30:],
		"spare bits":    string(last),
		"another kind":  "ghp_" + token[3:],
		"a password":    "correct horse battery staple",
		"a huge number": "hf_" + strings.Repeat("a", 1<<20),
	} {
		if checkToken(wrong) == nil {
			t.Errorf("%s: %.80q is accepted", name, wrong)
		}
	}
}

func FuzzBearer(f *testing.F) {
	token, _, err := NewToken("a")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer " + token)
	f.Add("bearer  " + token)
	f.Add("Basic YTpi")
	f.Add(token)
	f.Add("Bearer " + token + ", Bearer " + token)
	f.Fuzz(func(t *testing.T, value string) {
		got, err := bearer(http.Header{"Authorization": {value}})
		if err != nil {
			if !errors.Is(err, ErrAnonymous) || got != "" {
				t.Errorf("%q: %q, error %v", value, got, err)
			}
			if len(value) > 20 && strings.Contains(err.Error(), value[10:]) {
				t.Errorf("the error repeats the header: %v", err)
			}
			return
		}
		if len(got) != 61 || !strings.EqualFold(value, "Bearer "+got) || !strings.HasSuffix(value, " "+got) {
			t.Errorf("%q is read as %q", value, got)
		}
	})
}
