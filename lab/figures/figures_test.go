package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// point returns a result with one point.
func point(drawing, row, series string, v float64) results.Result {
	return results.Result{Points: []results.Point{{Drawing: drawing, Row: row, Series: series, Value: v}}}
}

func TestRowsOf(t *testing.T) {
	d := drawing{name: "pairs", from: "a.json"}
	got, err := rowsOf(d, results.Report{Results: []results.Result{
		point("pairs", "second", "a", 2), point("serve", "other", "a", 1), point("pairs", "first", "a", 1),
		point("pairs", "second", "b", 3), point("pairs", "second", "a", 99),
	}})
	want := []row{{"second", map[string]float64{"a": 2, "b": 3}}, {"first", map[string]float64{"a": 1}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, error %v; want %v", got, err, want)
	}
	for name, wrong := range map[string]results.Report{
		"no point of it": {Results: []results.Result{point("serve", "r", "a", 1)}},
		"nothing":        {Results: []results.Result{point("pairs", "r", "a", 0)}},
	} {
		if got, err := rowsOf(d, wrong); err == nil {
			t.Errorf("%s: it has the rows %v", name, got)
		}
	}
}

// Simultaneous shared holds are side by side, and a lane has as many rows as it needs.
func TestLanesOf(t *testing.T) {
	held := func(resource string, shared bool, from, to int) results.Held {
		return results.Held{Resource: resource, Shared: shared, From: from, To: to}
	}
	got := lanesOf([]results.Held{
		held("b", false, 0, 1), held("a", true, 2, 5), held("a", true, 0, 3), held("a", true, 3, 4), held("a", false, 5, 6),
	})
	want := []lane{
		{"a", 2, []placed{{held("a", true, 0, 3), 0}, {held("a", true, 2, 5), 1}, {held("a", true, 3, 4), 0}, {held("a", false, 5, 6), 0}}},
		{"b", 1, []placed{{held("b", false, 0, 1), 0}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// A figure is valid XML, and is drawn to the same bytes each time, because docs-check compares
// them.
func TestSameBytes(t *testing.T) {
	rows := []row{{"a <row>", map[string]float64{"p50": 0.1, "p99": 1, "longest": 1500}}, {"another", map[string]float64{"p50": 2}}}
	recorded := results.Recorded{
		Run: results.Run{Store: "redis", Seed: "0x1", Lasts: "15s"},
		Line: results.TimeLine{
			Ends: 2000, Faults: []results.Fault{{Name: "it fails", From: 1900, To: 1990}},
			Holds: []results.Held{{Resource: "r0", To: 500}, {Resource: "r0", Process: 9, Shared: true, From: 600, To: 5000}, {Resource: "r0", From: 2000}},
		},
	}
	for name, draw := range map[string]func() ([]byte, error){
		"dots": func() ([]byte, error) { return dots(drawings[1], rows) },
		"line": func() ([]byte, error) { return line(recorded) },
	} {
		first, err := draw()
		if err != nil {
			t.Fatal(name, err)
		}
		for range 10 {
			if again, err := draw(); err != nil || !bytes.Equal(again, first) {
				t.Errorf("%s: it is drawn in another way, error %v", name, err)
			}
		}
		for dec := xml.NewDecoder(bytes.NewReader(first)); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(name, err)
			}
		}
	}
	if _, err := line(results.Recorded{}); err == nil {
		t.Error("a campaign without an end is drawn")
	}
}

// A value that no result file has is an error.
func TestFiguresThatAreMissing(t *testing.T) {
	for name, write := range map[string]func(*kept){
		"cost": func(k *kept) { k.cost() }, "libraries": func(k *kept) { k.libraries() }, "hand-overs": func(k *kept) { k.handOvers() },
		"memory": func(k *kept) { k.memory() }, "server": func(k *kept) { k.server() }, "commands": func(k *kept) { k.commands() },
	} {
		var k kept
		if write(&k); len(k.errs) == 0 {
			t.Errorf("%s: no error for empty files", name)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{digits(0.14789), "0.148"}, {digits(31.353), "31.4"}, {thousands(17514), "17,500"}, {thousands(437.5), "438"},
		{thousands(126999), "127,000"}, {share(0.488), "49 %"}, {share(1.034), "103 %"}, {share(0.0823), "8.2 %"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
