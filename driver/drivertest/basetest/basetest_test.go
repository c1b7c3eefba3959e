package basetest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/drivertest/basetest"
)

// mutants of memory, and the subtests that are there for them.
var mutants = map[string][]string{
	"no floor":                                {"creation_after_the_clock_went_back"},
	"floor is of Touched alone":               {"creation_after_the_clock_went_back"},
	"floor is of tokens alone":                {"creation_after_the_clock_went_back"},
	"clock is read only for new records":      {"clock_is_read_again"},
	"urgent changes do not look at ctx":       {"dead_context"},
	"decides without the lock":                {"no_update_is_lost"},
	"only the first of a batch":               {"batches"},
	"put loses places":                        {"put_is_what_is_read"},
	"to look makes a record":                  {"what_is_kept_is_as_it_was"},
	"wakes for what should not":               {"wakes"},
	"scan ends after a page":                  {"scan_and_update", "due_and_delete"},
	"only records without live holds are due": {"due"},
	"idle records are never due":              {"due"},
}

// backendEnv makes TestBackend check a mutant, or the sound backend.
const backendEnv = "BASETEST_BACKEND"

// TestBackend is run by the tests below in processes of their own, because a
// suite that finds something fails the test that runs it.
func TestBackend(t *testing.T) {
	name := os.Getenv(backendEnv)
	if name == "" {
		t.Skip("run by TestMutants")
	}
	basetest.Run(t, func(*testing.T) base.Backend { return newMemory(name) })
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
