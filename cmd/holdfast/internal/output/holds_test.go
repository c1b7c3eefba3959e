package output

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func TestJSON(t *testing.T) {
	created := time.Date(2026, 11, 21, 9, 30, 0, 123456000, time.UTC)
	id, err := driver.ParseHoldID("0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	holds := []holdfast.Status{{
		Resource: "a<b>&\u009b\x1b", LockID: "lock", HoldID: id, Mode: holdfast.Shared, Limit: 3, Token: driver.MaxToken,
		Details: driver.Details{Owner: "ada", Host: "web1", Comment: `"why"`},
		Created: created, Renewed: created.Add(time.Second), Seen: created.Add(time.Hour), Left: 1500 * time.Microsecond, TakeoverDelay: time.Minute,
		Released: true,
	}, {
		Resource: "endless", Left: holdfast.Forever,
	}}
	var b strings.Builder
	if err := HoldsJSON(&b, holds, nil); err != nil {
		t.Fatal(err)
	}
	const want = `[
  {
    "resource": "a<b>&\u009b\u001b",
    "lockId": "lock",
    "holdId": "0123456789abcdef01234567",
    "mode": "shared",
    "limit": 3,
    "owner": "ada",
    "host": "web1",
    "comment": "\"why\"",
    "ttlMs": 2,
    "createdAt": "2026-11-21T09:30:00.123456Z",
    "renewedAt": "2026-11-21T09:30:01.123456Z",
    "ageMs": 3600000,
    "renewedAgoMs": 3599000,
    "takeoverDelayMs": 60000,
    "released": true,
    "token": 9007199254740991,
    "state": "released"
  },
  {
    "resource": "endless",
    "lockId": "",
    "holdId": "",
    "mode": "exclusive",
    "limit": null,
    "owner": "",
    "host": "",
    "comment": "",
    "ttlMs": -1,
    "createdAt": null,
    "renewedAt": null,
    "ageMs": null,
    "renewedAgoMs": null,
    "takeoverDelayMs": 0,
    "released": false,
    "token": 0,
    "state": "no-end"
  }
]
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	b.Reset()
	if err := HoldsJSON(&b, []holdfast.Status{{Left: driver.Unknown}}, nil); err != nil || !strings.Contains(b.String(), `"ttlMs": null,`) {
		t.Errorf("of a hold of unknown length: %v, %s", err, b.String())
	}
}

// A server without the right force shows neither lock IDs nor tokens.
func TestRowsOfAServer(t *testing.T) {
	rows := HoldRows([]holdfast.Status{{Resource: "r", Left: driver.Unknown}})
	if got := strings.Join(rows[1], ","); got != "r,exclusive,,,?,?,-,," {
		t.Errorf("the row is %s", got)
	}
	if got := Holder(holdfast.Status{Resource: "r"}); got != "another client" {
		t.Errorf("the holder is %q", got)
	}
}
