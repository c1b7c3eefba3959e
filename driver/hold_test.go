package driver

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestHoldIDText(t *testing.T) {
	id := NewHoldID()
	if id.IsZero() || id == NewHoldID() {
		t.Fatal("hold IDs are not random")
	}
	if got, err := ParseHoldID(id.String()); err != nil || got != id {
		t.Errorf("%q was read as %v, error %v", id, got, err)
	}
	if got, err := ParseHoldID(""); err != nil || !got.IsZero() || got.String() != "" {
		t.Errorf("no ID was read as %v, error %v", got, err)
	}
	for _, bad := range []string{"0", strings.Repeat("0", 23), strings.Repeat("0", 25), strings.Repeat("g", 24), strings.Repeat("é", 12)} {
		kept := id
		if err := kept.UnmarshalText([]byte(bad)); !errors.Is(err, ErrInvalid) || kept != id {
			t.Errorf("%q was read as %v, error %v; want ErrInvalid and the ID as it was", bad, kept, err)
		}
		if got, err := ParseHoldID(bad); err == nil || !got.IsZero() {
			t.Errorf("%q was parsed as %v, error %v", bad, got, err)
		}
	}
}

func TestModeText(t *testing.T) {
	for _, m := range []Mode{Exclusive, Shared} {
		text, err := json.Marshal(m)
		if err != nil || string(text) != `"`+m.String()+`"` {
			t.Errorf("%v was written as %s, error %v", m, text, err)
		}
		back := Mode(9)
		if err := json.Unmarshal(text, &back); err != nil || back != m {
			t.Errorf("%s was read as %v, error %v", text, back, err)
		}
	}
	if text, err := json.Marshal(Mode(2)); err == nil {
		t.Errorf("an invalid mode was marshalled as %s", text)
	}
	for _, bad := range []string{"", "Exclusive", "Mode(2)"} {
		m := Shared
		if err := m.UnmarshalText([]byte(bad)); err == nil || m != Shared {
			t.Errorf("%q was read as %v", bad, m)
		}
	}
}
