package env

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// The holds of the runs around are found by their store, whatever their names are.
func TestAround(t *testing.T) {
	c := holdfast.New(memlock.New(nil), nil)
	defer c.Close()
	var marks []string
	var want []driver.HoldRef
	for _, resource := range []string{"a b:c\n", strings.Repeat("é", 512)} {
		h, err := c.TryLock(t.Context(), resource, &holdfast.LockOptions{LockID: "ID of " + resource[:4]})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, driver.HoldRef{Resource: resource, LockID: h.LockID(), HoldID: h.ID(), Token: h.Token()})
		marks = append(marks, "x0123456789abcdef", LockIDMark(h.LockID()), HoldMark("here", h), HoldMark("elsewhere", h))
	}
	t.Setenv(HeldVariable, strings.Join(marks, " "))
	got := Around("here")
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !IsAround("ID of a b:") {
		t.Error("the lock ID is not that of a run around")
	}
	good := marks[2]
	for _, bad := range []string{
		"", "h", "h::::", strings.TrimSuffix(good, "="), good + ":", good + "%", strings.Replace(good, ":", ":0", 1),
		"h" + Hash("here") + "::1:aQ:cg", // without a hold ID
		"h" + Hash("here") + ":0123456789abcdef01234567:x:aQ:cg",
		"h" + Hash("here") + ":0123456789abcdef01234567:1:aQ:AA", // a NUL in the resource
	} {
		if bad == good {
			continue
		}
		t.Setenv(HeldVariable, bad)
		if got := Around("here"); got != nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}
