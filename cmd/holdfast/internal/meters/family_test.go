package meters

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

// A sample is in the bucket of its bound and in all above it.
func TestHistogram(t *testing.T) {
	f := newFamily(histogram, "m", "Help.", "op")
	var all sync.WaitGroup
	for _, seconds := range []float64{0, .25, .375, 30, 31} {
		all.Go(func() { f.observe(seconds, "a") })
	}
	all.Wait()
	var page bytes.Buffer
	f.write(&page)
	for _, want := range []string{
		"# HELP m Help.\n# TYPE m histogram\n",
		`m_bucket{op="a",le="0.0005"} 1` + "\n",
		`m_bucket{op="a",le="0.25"} 2` + "\n",
		`m_bucket{op="a",le="0.5"} 3` + "\n",
		`m_bucket{op="a",le="10"} 3` + "\n",
		`m_bucket{op="a",le="30"} 4` + "\n",
		`m_bucket{op="a",le="+Inf"} 5` + "\n",
		`m_sum{op="a"} 61.625` + "\n",
		`m_count{op="a"} 5` + "\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("there is no %q in\n%s", want, page.String())
		}
	}
}

func TestSeries(t *testing.T) {
	f := newFamily(counter, "m", "Help.", "a", "b")
	f.add(1, "y", "z")
	f.add(2, "x", "z")
	f.add(1, "x", "z")
	var page bytes.Buffer
	f.write(&page)
	now(&page, gauge, "n", "Other.", .5)
	const want = "# HELP m Help.\n# TYPE m counter\nm{a=\"x\",b=\"z\"} 3\nm{a=\"y\",b=\"z\"} 1\n# HELP n Other.\n# TYPE n gauge\nn 0.5\n"
	if got := page.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Each request counts in several metrics.
func TestAllocations(t *testing.T) {
	f := newFamily(histogram, "m", "Help.", "op", "outcome")
	f.observe(1, "acquire", "ok")
	if n := testing.AllocsPerRun(1000, func() { f.observe(1, "acquire", "ok") }); n > 0 {
		t.Errorf("a sample of a series that is there allocates %v times", n)
	}
}
