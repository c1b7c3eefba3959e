package basetest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/drivertest/basetest"
	"github.com/holdfast-go/holdfast/internal/selftest"
)

// mutants has mutants of memory, and the subtests that must catch them.
var mutants = map[string][]string{
	"no floor":                                {"creation_after_the_clock_went_back"},
	"floor ignores tokens":                    {"creation_after_the_clock_went_back"},
	"floor ignores Touched":                   {"creation_after_the_clock_went_back"},
	"clock is read only for new records":      {"clock_is_read_again"},
	"urgent changes ignore ctx":               {"dead_context"},
	"decides without the lock":                {"no_update_is_lost"},
	"only the first of a batch":               {"batches"},
	"put loses places":                        {"put_is_what_is_read"},
	"reading makes a record":                  {"what_is_kept_is_as_it_was"},
	"wakes for changes without Wake":          {"wakes"},
	"scan ends after a page":                  {"scan_and_update", "due_and_delete"},
	"only records without live holds are due": {"due"},
	"idle records are never due":              {"due"},
}

// TestBackend is run by the tests below in processes of their own.
func TestBackend(t *testing.T) {
	name := selftest.Subject(t)
	basetest.Run(t, func(*testing.T) base.Backend { return newMemory(name) })
}

func TestSoundBackendPasses(t *testing.T) { selftest.Passes(t, "TestBackend", "sound") }

func TestMutants(t *testing.T) {
	for name, subtests := range mutants {
		for _, subtest := range subtests {
			t.Run(name+"/"+subtest, func(t *testing.T) {
				t.Parallel()
				selftest.Catches(t, "TestBackend", name, subtest)
			})
		}
	}
}
