package castest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/drivertest/basetest"
	"github.com/holdfast-go/holdfast/driver/drivertest/castest"
)

// mutants of memory, and the subtests that are there for them.
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

// backendEnv makes TestBackend check a mutant, or the sound backend.
const backendEnv = "CASTEST_BACKEND"

// TestBackend is run by the tests below in processes of their own, because a
// suite that finds something fails the test that runs it.
func TestBackend(t *testing.T) {
	name := os.Getenv(backendEnv)
	if name == "" {
		t.Skip("run by TestMutants")
	}
	castest.Run(t, func(*testing.T) cas.Backend { return newMemory(name) })
}

func suite(t *testing.T, backend, subtests string) (output string, passed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBackend$/"+subtests, "-test.v")
	cmd.Env = append(os.Environ(), backendEnv+"="+backend)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err == nil
}

// The backend that the mutants are made of passes, so they fail for what they
// break.
func TestSoundBackendPasses(t *testing.T) {
	if out, passed := suite(t, "sound", ""); !passed {
		t.Error(out)
	}
}

func TestMutants(t *testing.T) {
	for name, subtests := range mutants {
		for _, subtest := range subtests {
			t.Run(name+"/"+subtest, func(t *testing.T) {
				t.Parallel()
				out, passed := suite(t, name, "^"+subtest+"$")
				if passed || !strings.Contains(out, "--- FAIL: TestBackend/"+subtest) {
					t.Errorf("%s did not catch it:\n%s", subtest, out)
				}
			})
		}
	}
}

// With the loop of package cas around it the backend is one as base wants it.
func TestLoopIsBackend(t *testing.T) {
	basetest.Run(t, func(*testing.T) base.Backend { return cas.Update(newMemory("sound")) })
}
