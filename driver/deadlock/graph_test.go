package deadlock_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
)

// scene is what a store shows. Later holds and places came later.
type scene struct {
	holds  []driver.Status
	places []driver.Place
}

// hold adds a hold, whose holder waits for another resource if that is not empty, with a
// place of its own in its queue.
func (s *scene) hold(resource, waitsFor string) *driver.Status {
	at := time.Unix(int64(len(s.holds)), 0)
	h := driver.Status{Resource: resource, LockID: rand.Text(), HoldID: driver.NewHoldID(), Left: time.Second, Created: at}
	if waitsFor != "" {
		p := s.wait(waitsFor)
		p.LockID = h.LockID
		h.Waits = &driver.Waits{Resource: waitsFor, Place: p.ID, Since: at}
	}
	s.holds = append(s.holds, h)
	return &s.holds[len(s.holds)-1]
}

func (s *scene) wait(resource string) *driver.Place {
	s.places = append(s.places, driver.Place{Resource: resource, ID: driver.NewPlaceID(), Fair: true, Left: time.Second})
	return &s.places[len(s.places)-1]
}

// all returns the deadlocks of a graph.
func all(t testing.TB, g deadlock.Graph) [][]deadlock.Link {
	t.Helper()
	paths, err := g.All(context.Background(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestAll(t *testing.T) {
	shared := func(h *driver.Status) { h.Mode, h.Limit = driver.Shared, 2 }
	for name, test := range map[string]struct {
		add  func(*scene)
		want []string // what the holders of each path hold
	}{
		"nothing":        {func(*scene) {}, nil},
		"nobody waits":   {func(s *scene) { s.hold("a", ""); s.wait("a") }, nil},
		"a chain":        {func(s *scene) { s.hold("a", "b"); s.hold("b", "c"); s.hold("c", "") }, nil},
		"two":            {func(s *scene) { s.hold("a", "b"); s.hold("b", "a") }, []string{"ba"}},
		"three":          {func(s *scene) { s.hold("a", "b"); s.hold("b", "c"); s.hold("c", "a") }, []string{"cab"}},
		"itself":         {func(s *scene) { s.hold("a", "a") }, []string{"a"}},
		"two of two":     {func(s *scene) { s.hold("a", "b"); s.hold("b", "a"); s.hold("c", "d"); s.hold("d", "c") }, []string{"dc", "ba"}},
		"one behind it":  {func(s *scene) { s.hold("a", "b"); s.hold("b", "a"); s.hold("c", "a") }, []string{"ba"}},
		"place is gone":  {func(s *scene) { s.hold("a", "b"); s.hold("b", "a"); s.places = s.places[:1] }, nil},
		"hold has ended": {func(s *scene) { s.hold("a", "b"); s.hold("b", "a").Left = 0 }, nil},
		"a free permit is to come": {func(s *scene) {
			shared(s.hold("a", "b"))
			shared(s.hold("a", ""))
			shared(s.hold("b", "a"))
			s.places[1].Mode, s.places[1].Limit = driver.Shared, 2
			s.places[0].Mode, s.places[0].Limit = driver.Shared, 2
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s scene
			test.add(&s)
			var got []string
			for _, path := range all(t, deadlock.GraphOf(s.holds, s.places)) {
				var text strings.Builder
				for i, link := range path {
					text.WriteString(link.Holds.Resource)
					if next := path[(i+1)%len(path)]; link.WaitsFor != next.Holds.Resource {
						t.Errorf("%s waits for %s, but the next one holds %s", link.Holds.Resource, link.WaitsFor, next.Holds.Resource)
					}
				}
				got = append(got, text.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
