package httplock

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

func holdOf(resource string) driver.HoldRef {
	return driver.HoldRef{Resource: resource, LockID: "mine", HoldID: driver.NewHoldID(), Token: 7}
}

// seen returns the hold as a server lists it for callers who may only look.
func seen(o *ownHolds, h driver.HoldRef) driver.HoldRef {
	return o.status(wire.Hold{Resource: h.Resource, Ref: wire.RefOf(h.HoldID)}).Ref()
}

func TestOwnHolds(t *testing.T) {
	var o ownHolds
	h := holdOf("r")
	unknown := driver.HoldRef{Resource: "r"}
	is := func(what string, got, want driver.HoldRef) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	is("before", seen(&o, h), unknown)
	o.remove(h)
	untold := h
	untold.Token = 0
	o.add(untold)
	is("without a token", seen(&o, h), untold)
	o.add(h)
	o.add(untold)
	is("own", seen(&o, h), h)
	is("of another", seen(&o, holdOf("r")), unknown)
	elsewhere := h
	elsewhere.Resource = "q"
	is("of another resource", seen(&o, elsewhere), driver.HoldRef{Resource: "q"})
	is("without a ref", o.status(wire.Hold{Resource: "r"}).Ref(), unknown)
	shown := wire.Hold{Resource: "r", HoldID: driver.NewHoldID(), LockID: "theirs", Token: 8, Ref: wire.RefOf(h.HoldID)}
	is("shown", o.status(shown).Ref(), shown.Driver().Ref())
	o.remove(holdOf("r"))
	is("after the end of another", seen(&o, h), h)
	o.remove(h)
	is("after its end", seen(&o, h), unknown)
	o.add(driver.HoldRef{Resource: "r", LockID: "mine"})
	if n := len(o.holds); n > 0 {
		t.Errorf("%d are left", n)
	}
}

// When there are too many, one is forgotten for each that comes, and none for a renewal.
func TestOwnHoldsAreBounded(t *testing.T) {
	var o ownHolds
	var last driver.HoldRef
	for i := range keptOwn + 100 {
		last = holdOf(strconv.Itoa(i))
		o.add(last)
		if got := seen(&o, last); got != last {
			t.Fatalf("the last one is %+v", got)
		}
	}
	o.add(last)
	if n := len(o.holds); n != keptOwn {
		t.Errorf("%d are known", n)
	}
}

// If two holds of a resource have the same ref, it names neither.
func TestOwnHoldsOfOneRef(t *testing.T) {
	// A ref repeats after about 2^16 IDs.
	refs := make(map[string]driver.HoldID)
	var one, other driver.HoldRef
	for i := 0; other.HoldID.IsZero(); i++ {
		var id driver.HoldID
		copy(id[:], fmt.Sprintf("%012d", i))
		ref := wire.RefOf(id)
		if before, ok := refs[ref]; ok {
			one, other = driver.HoldRef{Resource: "r", HoldID: before}, driver.HoldRef{Resource: "r", HoldID: id}
		}
		refs[ref] = id
	}
	var o ownHolds
	o.add(one)
	o.add(other)
	o.remove(one)
	for _, h := range []driver.HoldRef{one, other} {
		if got := seen(&o, h); !got.HoldID.IsZero() {
			t.Errorf("%v is %v", h.HoldID, got.HoldID)
		}
	}
}
