package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/server/access"
)

// With 10,000 holds, of which some change all the time, the page stays quick: what it does at
// a time takes less than 50 ms, but for what a busy machine adds.
func TestTenThousandHolds(t *testing.T) {
	s := newScene(t, access.Onlooker())
	for i := range 10_000 {
		s.hold(fmt.Sprintf("orders/%05d", i), "worker", time.Hour)
	}
	b := open(t, 1400, 900)
	b.visit(s.url)
	b.shows("10000 holds", "These are the first 200 of 10000")
	eval[bool](b, `(() => {
		window.long = []; window.looks = 0;
		new PerformanceObserver(list => long.push(...list.getEntries().map(e => Math.round(e.duration)))).observe({ type: "longtask" });
		document.addEventListener("holdfast-load", () => looks++);
		return true;
	})()`)
	seconds := 60
	if testing.Short() {
		seconds = 10
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := 0; time.Now().Before(end); i++ {
		q := s.hold(fmt.Sprintf("jobs/%d", i), "worker", time.Hour)
		time.Sleep(time.Second / 60)
		s.release(q)
	}
	looks, long := eval[int](b, `looks`), eval[[]int](b, `long`)
	t.Logf("%d changes of the page in %d s; tasks over 50 ms: %v ms", looks, seconds, long)
	if looks < seconds/4 {
		t.Errorf("the page changed %d times in %d s", looks, seconds)
	}
	if len(long) > looks/20+1 {
		t.Errorf("%d of %d changes took over 50 ms: %v", len(long), looks, long)
	}
}
