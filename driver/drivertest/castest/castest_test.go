package castest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/drivertest/basetest"
	"github.com/holdfast-go/holdfast/driver/drivertest/castest"
	"github.com/holdfast-go/holdfast/internal/selftest"
)

// mutants has mutants of memory, and the subtests that must catch them.
var mutants = map[string][]string{
	"version counts from 1 in each record": {"versions_never_repeat", "S32a_stale_swap"},
	"version counts holds":                 {"versions_never_repeat", "S32a_stale_swap"},
	"version is the token":                 {"versions_never_repeat"},
	"swap ignores the version":             {"swap_needs_its_version", "no_update_is_lost"},
	"deletion ignores the version":         {"S32a_stale_deletion"},
	"swap loses places":                    {"swap_stores_what_it_is_given"},
	"creation overwrites":                  {"swap_needs_its_version"},
	"creation from before a deletion":      {"S32a_stale_creation"},
	"clock is read only for new records":   {"clock_is_read_again"},
	"scan ends after a page":               {"scan_and_swap"},
	"creation after the clock went back":   {"creation_after_the_clock_went_back"},
	"floor is of Touched alone":            {"creation_after_the_clock_went_back"},
	"floor is of tokens alone":             {"creation_after_the_clock_went_back"},
}

// TestBackend is run by the tests below in processes of their own.
func TestBackend(t *testing.T) {
	name := selftest.Subject(t)
	castest.Run(t, func(*testing.T) cas.Backend { return newMemory(name) })
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

// cas.Update makes a correct base.Backend of the backend.
func TestLoopIsBackend(t *testing.T) {
	basetest.Run(t, func(*testing.T) base.Backend { return cas.Update(newMemory("sound")) })
}
