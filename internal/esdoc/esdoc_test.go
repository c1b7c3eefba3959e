package esdoc

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

func TestOld(t *testing.T) {
	long := strings.Repeat("x", MaxID+1)
	for id, want := range map[string]string{
		"plain": "plain", "a b": "a b", "a+b": "a+b", "ü 世界": "ü 世界", "..": "..", "a;b": "a;b", `a"\^b`: `a"\^b`, "sha256-short": "sha256-short",
		// Other documents.
		"a%2Fb": "a/b", "a%2fb": "a/b", "a#b": "a", "a#": "a", "a%20b": "a b", "%C3%BC": "ü", "a%25zz": "a%zz",
		"job/": "job", "job//": "job", "job/#x": "job", "job/#/": "job", "a b/": "a b", "../": "..", long[1:] + "/": long[1:],
		"trail%2F": "trail/", "trail%2f": "trail/", "trail%2F/": "trail/", "trail%2F%2F": "trail//", "%2F": "/", "%2Fa": "/a", "a%2Fb/": "a/b",
		// Nothing can be locked by them.
		"a/b": "a/b", "a/b/": "a/b/", "a//b": "a//b", "/a": "/a", "//": "//", "a/%2F": "a/%2F", "a/.": "a/.", "/": "/", "100%": "100%", "a%zz": "a%zz", "a\nb": "a\nb", "#a": "#a", "a/b#c": "a/b#c", long: long,
		// Refused.
		"a?b": "", "a?": "", "a?b#c": "", "a%ff": "", "a%00": "", "a%252Fb": "", "a%252Fb/": "", "a/?b": "", "a%23b": "", "a%3Fb": "",
		fmt.Sprintf("sha256-%x", sha256.Sum256(nil)): "", fmt.Sprintf("sha256-%x/", sha256.Sum256(nil)): "",
	} {
		got, err := Old(id)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v; want %q", id, got, err, want)
		}
	}
}

func TestID(t *testing.T) {
	long := strings.Repeat("ü", 257)
	hash := ID(long)
	seen := map[string]string{}
	for _, name := range []string{"a", strings.Repeat("x", MaxID), strings.Repeat("x", MaxID+1), long, hash, ID(hash), hash + "0", "sha256-"} {
		id := ID(name)
		if other, is := seen[id]; is || len(id) > MaxID {
			t.Errorf("%.80q has the ID %q, as %.80q", name, id, other)
		}
		seen[id] = name
	}
}
