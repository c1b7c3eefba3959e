package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"

	"github.com/holdfast-go/holdfast/server/access"
)

// With 10,000 holds, of which some change all the time, the page stays quick.
//
// How long its tasks take depends on what else the machine does, so nothing is compared with a
// time. What a change of the page costs is the processor time of the page's thread, compared
// with what it costs, in the same page and the same minute, to show the same rows anew. A page
// that does that for each change fails the test, as one does that does more and more.
func TestTenThousandHolds(t *testing.T) {
	s := newScene(t, access.Onlooker())
	for i := range 10_000 {
		s.hold(fmt.Sprintf("orders/%05d", i), "worker", time.Hour)
	}
	b := open(t, 1400, 900)
	b.visit(s.url)
	b.shows("10000 holds", "These are the first 200 of 10000")
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	// The page's clock stands still: what it counts each second would be counted to its changes,
	// the more the rarer they are.
	eval[bool](b, `(() => {
		const now = performance.now();
		performance.now = () => now;
		window.loads = 0;
		document.addEventListener("holdfast-load", () => loads++);
		return true;
	})()`)
	anew := renderingAnew(b)

	// While some holds come and go, until the store was looked at often enough.
	enough := int64(20)
	if testing.Short() {
		enough = 6
	}
	looks, spent := s.looks.Load(), b.processorTime()
	for i, end := 0, time.Now().Add(3*time.Minute); s.looks.Load() < looks+enough && time.Now().Before(end); i++ {
		q := s.hold(fmt.Sprintf("jobs/%d", i), "worker", time.Hour)
		time.Sleep(time.Second / 60)
		s.release(q)
	}
	loads := eval[int](b, `loads`)
	each := (b.processorTime() - spent) / time.Duration(max(loads, 1))
	looks = s.looks.Load() - looks
	anew = max(anew, renderingAnew(b)) // the machine may do less now
	t.Logf("%d changes of the page for %d looks, each %v of processor time; all rows anew: %v", loads, looks, each, anew)
	if int64(loads) < looks/2 {
		t.Errorf("the page changed %d times for %d looks at the store", loads, looks)
	}
	if each > anew {
		t.Errorf("a change takes %v of processor time, and to show all rows anew takes %v", each, anew)
	}
}

// renderingAnew returns how much processor time the page needs to parse its rows and to show
// them in the place of those that are there.
func renderingAnew(b *browser) time.Duration {
	b.Helper()
	const times = 5
	before := b.processorTime()
	eval[bool](b, fmt.Sprintf(`(async () => {
		const live = document.getElementById("live");
		for (let i = 0; i < %d; i++) {
			const copy = new DOMParser().parseFromString(live.innerHTML, "text/html").body;
			const shown = document.createElement("div");
			shown.append(...copy.childNodes);
			live.after(shown);
			live.style.display = "none";
			shown.offsetHeight;
			await new Promise(next => requestAnimationFrame(() => setTimeout(next)));
			shown.remove();
			live.style.display = "";
		}
		return true;
	})()`, times))
	return (b.processorTime() - before) / times
}

// processorTime returns how long the page's thread has worked.
func (b *browser) processorTime() time.Duration {
	b.Helper()
	for _, m := range call(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	b.Fatal("the browser does not say how long it has worked")
	return 0
}
