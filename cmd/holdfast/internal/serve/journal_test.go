package serve

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/server/audit"
	"github.com/holdfast-go/holdfast/server/budget"
)

// Logins that fail do not fill a disk, however many addresses they come from. Those that succeed
// are all written.
func TestLoginsInTheAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(path, nil)
	check(t, err)
	r := &running{budget: budget.New(nil), audit: log}
	for i := range 1000 {
		q := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/acquire", nil)
		q.RemoteAddr = fmt.Sprintf("[2001:db8:%x::1]:1234", i)
		r.noteLogin(q, audit.Event{Outcome: "denied", Reason: "nobody has this token"})
		r.noteLogin(q, audit.Event{Outcome: "granted", Caller: "ops"})
		if i%100 == 0 {
			check(t, log.Record(t.Context(), audit.Event{Action: "flush"})) // the queue is bounded
		}
	}
	check(t, log.Close())
	text, err := os.ReadFile(path)
	check(t, err)
	if denied, granted := bytes.Count(text, []byte(`"denied"`)), bytes.Count(text, []byte(`"granted"`)); denied < 200 || denied > 300 || granted != 1000 {
		t.Errorf("%d logins that failed are written, want some 256, and %d that succeeded", denied, granted)
	}
}
