package history_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := history.Create(path, 3)
	if err != nil {
		t.Fatal(err)
	}
	before := history.Now()
	first := j.Call(history.Event{Kind: history.Acquire, Resource: "a", TTL: time.Second})
	j.Call(history.Event{Kind: history.Renew, Resource: "b"})
	first(history.Event{Kind: history.Acquire, Resource: "a", TTL: time.Second, Token: 7, Outcome: history.Done})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// The process is killed while it writes.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"call":3,"event":{"resou`...), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := history.Now() + time.Minute
	events, err := history.Read(path, ended)
	if err != nil || len(events) != 2 {
		t.Fatalf("%+v, %v", events, err)
	}
	a, b := events[0], events[1]
	if a.Process != 3 || a.Resource != "a" || a.Token != 7 || a.Outcome != history.Done || a.Called < before || a.Answered < a.Called || a.Answered >= ended {
		t.Errorf("the answered one is %+v", a)
	}
	if b.Resource != "b" || b.Outcome != history.Unknown || b.Answered != ended {
		t.Errorf("the other one is %+v", b)
	}
}

// A process may be killed before it creates its journal.
func TestMissingJournal(t *testing.T) {
	if events, err := history.Read(filepath.Join(t.TempDir(), "none"), 0); err != nil || len(events) != 0 {
		t.Errorf("read %+v, %v", events, err)
	}
}

func TestBadJournals(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":     "what?\n",
		"two answers": `{"call":1,"event":{}}` + "\n" + `{"call":1,"event":{"answered":5}}` + "\n" + `{"call":1,"event":{"answered":6}}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if events, err := history.Read(path, 0); err == nil {
			t.Errorf("%s: read as %+v", name, events)
		}
	}
}
