package driver

import (
	"testing"
	"time"
)

func TestFilterMatch(t *testing.T) {
	born := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	hold := Status{Resource: "r", LockID: "a", Details: Details{Owner: "ann"}, Created: born, Left: time.Minute}
	endless := hold
	endless.Left = Forever
	for name, c := range map[string]struct {
		f             Filter
		hold, endless bool
	}{
		"nothing":            {Filter{}, true, true},
		"all":                {Filter{Resource: "r", LockID: "a", Owner: "ann"}, true, true},
		"resource":           {Filter{Resource: "R"}, false, false},
		"lock ID":            {Filter{LockID: "b"}, false, false},
		"owner":              {Filter{Owner: "an"}, false, false},
		"one of two":         {Filter{Resource: "r", LockID: "b"}, false, false},
		"before":             {Filter{CreatedBefore: born.Add(1)}, true, true},
		"before, the moment": {Filter{CreatedBefore: born}, false, false},
		"after":              {Filter{CreatedAfter: born.Add(-1)}, true, true},
		"after, the moment":  {Filter{CreatedAfter: born}, false, false},
		"below":              {Filter{LeftBelow: time.Minute + 1}, true, false},
		"below, exactly":     {Filter{LeftBelow: time.Minute}, false, false},
		"at least, exactly":  {Filter{LeftAtLeast: time.Minute}, true, true},
		"at least more":      {Filter{LeftAtLeast: time.Minute + 1}, false, true},
		"forever":            {Filter{LeftAtLeast: Forever}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.f.Match(hold); got != c.hold {
				t.Errorf("matches a hold with a minute left: %v", got)
			}
			if got := c.f.Match(endless); got != c.endless {
				t.Errorf("matches a hold without an end: %v", got)
			}
		})
	}
}
