//go:build unix

package campaign

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"
)

var keptFile = flag.String("campaign.history", "", "a history that a campaign has kept, for TestKept")

// TestKept searches again for an order that was not found in time.
func TestKept(t *testing.T) {
	if *keptFile == "" {
		t.Skip("looks for the order of the history that -campaign.history names")
	}
	text, err := os.ReadFile(*keptFile)
	if err != nil {
		t.Fatal(err)
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ok, err := explained(k.Events, k.Known)
	if err != nil || !ok {
		t.Errorf("explained: %v, error %v", ok, err)
	}
	t.Logf("%d events, %v", len(k.Events), time.Since(began))
}
