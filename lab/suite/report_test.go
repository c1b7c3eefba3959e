package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// TestReport reads the real output of go test for packages that fail in each possible way.
func TestReport(t *testing.T) {
	cmd := modules.Command(t.Context(), ".", "go", "test", "-json", "./testdata/broken", "./testdata/silent", "./testdata/unbuildable")
	events, err := cmd.Output()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended {
		t.Fatalf("go test: %v, want it to fail", err)
	}

	var out strings.Builder
	r := newReport(&out)
	r.skip("an engine: install it")
	if failed, err := r.read(strings.NewReader(string(events)), command{modules.Module{Dir: "lab", Path: "github.com/holdfast-go/holdfast/lab"}, []string{"-short"}}); err != nil || failed == 0 {
		t.Fatalf("read %d failures, error %v", failed, err)
	}
	r.close()
	text := out.String()

	for _, want := range []string{
		"said by a test that fails",
		"said before the panic",
		"boom",
		"cannot use \"text\"",
		"unbuildable [build failed]",
		"  SKIP an engine: install it\n",
		"broken.TestSkipped, TestSkippedToo: no server: install one",
		"  this store has no queue: github.com/holdfast-go/holdfast/lab/suite/testdata/broken\n",
		`GOWORK=off go -C lab test -short -count=1 -run '^TestOuter$/^it'\''s_\(odd\)$' ./suite/testdata/broken`,
		"GOWORK=off go -C lab test -short -count=1 ./suite/testdata/unbuildable\n",
		"silent failed outside its tests:\n",
		"has run no test\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if said := "said by a test that passes"; strings.Contains(text, said) {
		t.Errorf("prints %q, which is noise", said)
	}
	_, failures, _ := strings.Cut(text, "\nfailed:\n")
	for _, want := range []string{"said by a test that fails", "said by a subtest that fails", "cannot use \"text\""} {
		if !strings.Contains(failures, want) {
			t.Errorf("does not repeat %q at the end", want)
		}
	}
	// TestPasses and two subtests; TestFails, TestOuter and its subtest, TestPanics, the build,
	// and the package without a run test.
	if last := "3 passed, 6 failed\n"; !strings.HasSuffix(text, last) {
		t.Errorf("does not end in %q", last)
	}
	if t.Failed() {
		t.Logf("the output:\n%s", text)
	}
}

func TestSkipRequired(t *testing.T) {
	t.Setenv("HOLDFAST_REQUIRE", "redis,race")
	r := newReport(t.Output())
	if err := skip(r, "race", "the race detector"); err == nil {
		t.Error("a required tool was skipped")
	}
	if err := skip(r, "modules", "a module"); err != nil {
		t.Errorf("an optional tool failed: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	for said, want := range map[string]bool{
		`go: example.com/x@v1.0.0: Get "https://example.com/x": dial tcp: lookup example.com: no such host`: true,
		`x.go:3:2: example.com/x@v1.0.0: module lookup disabled by GOPROXY=off`:                             true,
		"verifying example.com/x@v1.0.0: checksum mismatch":                                                 false,
		"x.go:1:1: expected 'package', found 'EOF'":                                                         false,
	} {
		if got := unreachable.MatchString(said); got != want {
			t.Errorf("%q: unreachable %t, want %t", said, got, want)
		}
	}
}
