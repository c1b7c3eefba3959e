package linear

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stores open two handles on the same data.
var stores = map[string]func(t *testing.T) [2]driver.Store{
	"memory": func(*testing.T) [2]driver.Store {
		s := memlock.New(nil)
		return [2]driver.Store{s, s}
	},
	"sqlite": func(t *testing.T) (both [2]driver.Store) {
		path := filepath.Join(t.TempDir(), "locks.db")
		for i := range both {
			s, err := sqlitelock.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			both[i] = s
		}
		return both
	},
}

// Whatever happens to requests and replies, the answers are those of some order
// of decisions.
func TestHistories(t *testing.T) {
	for name, open := range stores {
		for faults, disturb := range map[string]func(driver.Store) driver.Store{
			"sound": func(s driver.Store) driver.Store { return s },
			"behind faults": func(s driver.Store) driver.Store {
				return drivertest.NewFaultStore(s, Faults(rand.Uint64()))
			},
		} {
			t.Run(name+"/"+faults, func(t *testing.T) {
				both := open(t)
				for i, s := range both {
					both[i] = disturb(s)
				}
				events := Exercise(t, both[:]...)
				for _, s := range both {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
				for _, wrong := range drivertest.Judge(events) {
					t.Error(wrong)
				}
				Check(t, events)
				count(t, events)
			})
		}
	}
}

// count makes sure that an exercise is worth the name.
func count(t *testing.T, events []drivertest.Event) {
	t.Helper()
	n := make(map[string]int)
	for _, e := range events {
		n[string(e.Op)+" "+string(e.Outcome)]++
	}
	t.Log(len(events), "requests:", n)
	for _, what := range []string{"acquire done", "acquire held", "renew done", "renew lost", "release done"} {
		if n[what] == 0 {
			t.Errorf("nobody saw: %s", what)
		}
	}
}
