package httplock_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/server/access"
)

// otherwise lists the subtests of the suite that a server with an auth file cannot pass,
// and why. All others pass: the server removes the caller's name from its lock IDs, and
// caller from its owners. Subtests that no server of a memory store can run are also
// skipped here: they need copies, an outage, a restart or a damaged record.
var otherwise = map[string]string{
	"S36_names": "lock IDs and owners of 1,024 bytes, the longest, have no room for the caller's name",
}

// A caller with all rights sees what it would see without an auth file, except that its
// name is part of its lock IDs and owners.
func TestConformanceOfCaller(t *testing.T) {
	token, entry, err := access.NewToken("billing")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "auth.json")
	rules := `"rules": [{"resources": "*", "may": ["lock", "look", "force"], "maxTtl": "forever"}]`
	entry = strings.Replace(strings.TrimSpace(entry), `"rules":[]`, rules, 1)
	if err := os.WriteFile(file, []byte(fmt.Sprintf(`{"callers": [%s]}`, entry)), 0o600); err != nil {
		t.Fatal(err)
	}
	callers, err := access.OpenFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(callers.Close)
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		if why, ok := otherwise[path.Base(t.Name())]; ok {
			t.Skip(why)
		}
		b := inMemory(t)
		s := newSite(t, b.open(t), callers.Identify)
		return b.harness(t, calling("billing", dialer(s.url, &httplock.Options{Token: token})))
	})
}
