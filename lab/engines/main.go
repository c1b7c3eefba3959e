package engines

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package that needs servers, and fails if they leave goroutines
// behind. It runs six tests at a time unless a flag says otherwise, because most of them wait
// for a network or a clock.
func Main(m *testing.M, leaks ...goleak.Option) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m, leaks...)
}
