package browser

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"

	"github.com/holdfast-go/holdfast/server/access"
)

// A page with 10,000 holds, some of which change all the time, stays responsive.
//
// The duration of its tasks depends on the load of the machine, so the test does not compare it
// with a limit. Instead, a change must replace few of the page's elements: a page that renders
// all rows again fails. And the processor time of the page's thread for a change is compared
// with the time for laying out the same rows twice, in the same page and the same minute. It is
// 35 to 50 % of that, so a page whose script becomes two or three times as slow fails.
func TestTenThousandHolds(t *testing.T) {
	s := newScene(t, access.Onlooker())
	for i := range 10_000 {
		s.hold(fmt.Sprintf("orders/%05d", i), "worker", time.Hour)
	}
	b := open(t, 1400, 900)
	b.visit(s.url)
	b.shows("10000 holds", "These are the first 200 of 10000")
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	// Stop the page's clock: its work of each second would count as work for changes, and the
	// more so the rarer the changes are.
	eval[bool](b, `(() => {
		const now = performance.now();
		performance.now = () => now;
		window.loads = 0;
		document.addEventListener("holdfast-load", () => loads++);
		window.exchanged = 0;
		const size = (n) => n.nodeType === 1 ? 1 + n.getElementsByTagName("*").length : 1;
		window.observer = new MutationObserver(list => {
			for (const m of list) for (const n of [...m.addedNodes, ...m.removedNodes]) exchanged += size(n);
		});
		observer.observe(document.getElementById("live"), { childList: true, subtree: true });
		return true;
	})()`)
	anew := renderingAnew(b)

	// Change some holds until the dashboard has looked at the store often enough.
	enough := 20
	if testing.Short() {
		enough = 8
	}
	looks, loads := s.looks.Load(), 0
	var costs []time.Duration
	spent := b.processorTime()
	for i, end := 0, time.Now().Add(5*time.Minute); len(costs) < enough && time.Now().Before(end); i++ {
		q := s.hold(fmt.Sprintf("jobs/%d", i), "worker", time.Hour)
		time.Sleep(time.Second / 60)
		s.release(q)
		if i%10 > 0 {
			continue
		}
		if n := eval[int](b, `loads`); n > loads {
			now := b.processorTime()
			costs = append(costs, (now-spent)/time.Duration(n-loads))
			spent, loads = now, n
		}
	}
	looks = s.looks.Load() - looks
	exchanged, elements := eval[int](b, `exchanged`)/max(loads, 1), eval[int](b, `document.getElementById("live").getElementsByTagName("*").length`)
	anew = append(anew, renderingAnew(b)...)
	slices.Sort(costs)
	slices.Sort(anew)
	if int64(loads) < looks/2 || len(costs) < enough {
		t.Fatalf("the page changed %d times for %d looks at the store", loads, looks)
	}
	change, all := costs[len(costs)/2], anew[len(anew)/2]
	t.Logf("%d changes of the page for %d looks, each of %d elements of %d; half of them took %v of processor time at most, and all rows anew %v",
		loads, looks, exchanged, elements, change, all)
	if exchanged > elements/10 {
		t.Errorf("a change exchanges %d of %d elements", exchanged, elements)
	}
	if change > all {
		t.Errorf("a change takes %v of processor time, and to show all rows anew %v", change, all)
	}
}

// renderingAnew returns, for several tries, the processor time that the page needs to parse its
// rows and to render them twice.
func renderingAnew(b *browser) (costs []time.Duration) {
	b.Helper()
	for range 9 {
		before := b.processorTime()
		eval[bool](b, `(async () => {
			const live = document.getElementById("live");
			const copy = new DOMParser().parseFromString(live.innerHTML, "text/html").body;
			const shown = document.createElement("div");
			shown.append(...copy.childNodes);
			live.after(shown);
			live.style.display = "none";
			shown.offsetHeight;
			await new Promise(next => requestAnimationFrame(() => setTimeout(next)));
			shown.remove();
			live.style.display = "";
			return true;
		})()`)
		costs = append(costs, b.processorTime()-before)
	}
	return costs
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
