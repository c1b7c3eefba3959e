package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
)

// dialog returns the text of the dialog, or nothing if it is closed.
func (b *browser) dialog() string {
	b.Helper()
	return eval[string](b, `document.getElementById("dialog").open ? document.getElementById("dialog").innerText.replace(/\s+/g, " ") : ""`)
}

// Two clicks on the first page end a hold: one at its row, or at its card, and one in a dialog
// that repeats what it is about, and wants a reason. Meanwhile the rows stand still.
func TestTwoClicks(t *testing.T) {
	s := newScene(t, access.Operator())
	s.hold("backup", "bob", time.Hour)
	q := s.hold("nightly", "ada", time.Hour)
	s.hold("nightly-2", "ada", time.Hour)
	b := open(t, 1200, 900)
	b.visit(s.url)
	b.shows("3 holds", "backup")

	// The first click. What is in the way of the second stays where it is.
	b.do(chromedp.Click(`[data-key="r-backup"] [data-release]`), chromedp.WaitVisible(`#reason`))
	says := b.dialog()
	ref := eval[string](b, `document.querySelector("#dialog code").textContent`)
	for _, part := range []string{"Release by force", "backup", "bob on web1", "holds it exclusively, for", "For a ticket: " + ref, "it may go on until its next renewal", "Why?"} {
		if !strings.Contains(says, part) {
			t.Errorf("%q is not in the dialog: %s", part, says)
		}
	}
	if at := eval[string](b, `document.activeElement.id`); at != "reason" {
		t.Errorf("%q has the focus", at)
	}
	looks := s.looks.Load()
	s.hold("aaa", "eve", time.Hour)
	s.release(q)
	for s.looks.Load() < looks+3 {
		time.Sleep(50 * time.Millisecond)
	}
	if rows := eval[string](b, `[...document.querySelectorAll(".rows tbody th")].map(e => e.innerText).join()`); rows != "backup,nightly,nightly-2" {
		t.Errorf("the rows are %s", rows)
	}
	// A reason is required.
	b.do(chromedp.Click(`#dialog [type=submit]`))
	if b.dialog() == "" || len(s.holders("backup")) != 1 {
		t.Fatal("it is released without a reason")
	}
	// The second click.
	b.do(chromedp.SendKeys(`#reason`, "its host is gone"), chromedp.Click(`#dialog [type=submit]`))
	b.shows("Released. Its holder may go on until its next renewal tells it.", "aaa")
	if n := eval[int](b, `document.querySelectorAll('[data-key="r-backup"]').length`); n != 0 || len(s.holders("backup")) != 0 {
		t.Errorf("%d rows show it still", n)
	}

	// The dialog keeps the focus, and gives it back.
	b.do(chromedp.Click(`[data-key="r-nightly-2"] [data-release]`), chromedp.WaitVisible(`#reason`))
	for range 9 {
		b.do(chromedp.KeyEvent("\t"))
		if !eval[bool](b, `document.activeElement === document.body || document.getElementById("dialog").contains(document.activeElement)`) {
			t.Errorf("%s has the focus", eval[string](b, `document.activeElement.outerHTML`))
		}
	}
	b.do(chromedp.KeyEvent("\x1b"), chromedp.WaitNotVisible(`#dialog`))
	if at := eval[string](b, `document.activeElement.closest("tr")?.dataset.key`); at != "r-nightly-2" {
		t.Errorf("%q has the focus", at)
	}
	if len(s.holders("nightly-2")) != 1 {
		t.Error("it is released")
	}
}

// The card of what is stuck has such a button at each hold.
func TestTwoClicksOnCard(t *testing.T) {
	s := newScene(t, access.Operator())
	b := open(t, 1200, 900)
	b.visit(s.url)
	// It keeps others out for an hour after its end.
	id := driver.NewHoldID()
	_, err := s.store.Acquire(t.Context(), driver.AcquireRequest{
		Resource: "nightly", LockID: "ada", HoldID: id, TTL: time.Second, TakeoverDelay: time.Hour, Details: driver.Details{Owner: "ada", Host: "web1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.shows("Look at this first", "ada on web1", "Nobody has released it.")
	s.wait("nightly", "bob")
	b.shows("bob on web1 has waited for", "to hold it exclusively", "the holder is in its way")
	b.do(chromedp.Click(`.trouble [data-release]`), chromedp.WaitVisible(`#reason`))
	if says := b.dialog(); !strings.Contains(says, "ada on web1 ended holds it exclusively") {
		t.Error(says)
	}
	b.do(chromedp.SendKeys(`#reason`, "its host is gone"), chromedp.Click(`#dialog [type=submit]`))
	b.shows("Released.", "Nothing is stuck. 0 holds; 1 waits", "free")
}

// A search for a host lists all that it holds, and a button ends that. Each hold says what
// became of it.
func TestForceHost(t *testing.T) {
	s := newScene(t, access.Operator())
	for i := range 5 {
		s.hold(fmt.Sprintf("jobs/%d", i), "worker", time.Hour)
	}
	gone := s.hold("jobs/5", "worker", time.Hour)
	b := open(t, 1200, 900)
	b.visit(s.url)
	b.shows("6 holds")
	b.do(chromedp.SendKeys(`input[type=search]`, "web1"))
	b.shows("Release all 6 holds of web1…")
	b.do(chromedp.Click(`.filters [data-release]`), chromedp.WaitVisible(`#reason`))
	b.shows("Release 6 holds by force")
	if says := b.dialog(); strings.Count(says, "worker on web1") != 6 || !strings.Contains(says, "say that they run on web1. Nobody has checked that.") {
		t.Error(says)
	}
	s.release(gone)
	b.do(chromedp.Click(`.chosen li:nth-child(2) input`), chromedp.SendKeys(`#reason`, "its host is gone"), chromedp.Click(`#dialog [type=submit]`))
	b.shows("Released.", "That hold has ended by itself meanwhile.")
	b.shows("5 of 5 are done", "Close")
	if says := b.dialog(); strings.Count(says, "Released.") != 4 || strings.Count(says, "ended by itself") != 1 {
		t.Error(says)
	}
	for i := range 5 {
		if n := len(s.holders(fmt.Sprintf("jobs/%d", i))); (n == 1) != (i == 1) {
			t.Errorf("jobs/%d has %d holders", i, n)
		}
	}
	b.do(chromedp.Click(`[data-close]`))
	b.shows("1 hold;", "jobs/1")
}

// Look now reads a resource although the store rests.
func TestLookNow(t *testing.T) {
	s := newScene(t, access.Onlooker())
	s.takes.Store(int64(2 * time.Second))
	b := open(t, 1200, 900)
	b.visit(s.url + "resource?name=nightly")
	b.shows("Nobody held it at the last look.", "This is how it was", "the store rests ten times as long as a look takes")
	s.hold("nightly", "ada", time.Hour)
	b.do(chromedp.Click(`[data-look]`))
	b.shows("ada on web1", "holds it exclusively")
}

// The ref for a ticket is copied. Where a browser does not let that be, it is selected.
func TestCopy(t *testing.T) {
	s := newScene(t, access.Onlooker())
	s.hold("nightly", "ada", time.Hour)
	b := open(t, 1200, 900)
	b.visit(s.url + "resource?name=nightly")
	b.shows("For a ticket")
	ref := eval[string](b, `document.querySelector(".hold").id`)
	eval[bool](b, `(window.copied = "", navigator.clipboard.writeText = async (text) => { copied = text }, true)`)
	b.do(chromedp.Click(`[data-copy]`))
	b.shows("Copied")
	if got := eval[string](b, `copied`); got != ref || len(ref) != 8 {
		t.Errorf("copied %q of %q", got, ref)
	}
	for _, refuses := range []string{`navigator.clipboard.writeText = async () => { throw new Error("no permission") }`, `Object.defineProperty(navigator, "clipboard", { value: undefined })`} {
		b.visit(s.url + "resource?name=nightly")
		b.shows("For a ticket")
		eval[bool](b, `(`+refuses+`, true)`)
		b.do(chromedp.Click(`[data-copy]`))
		b.shows("Selected: press Ctrl+C")
		if got := eval[string](b, `getSelection().toString()`); got != ref {
			t.Errorf("selected %q of %q", got, ref)
		}
	}
}

// greens counts what a page shows in green.
const greens = `(() => {
	const probe = document.createElement("i");
	probe.style.color = getComputedStyle(document.documentElement).getPropertyValue("--fine");
	document.body.append(probe);
	const green = getComputedStyle(probe).color;
	probe.remove();
	let n = 0;
	for (const e of document.querySelectorAll("*")) for (const pseudo of [null, "::before"]) {
		const style = getComputedStyle(e, pseudo);
		if (style.color === green || style.content !== "none" && style.backgroundColor === green || style.borderTopWidth !== "0px" && style.borderTopColor === green) n++;
	}
	return n;
})()`

// The first line is red, with the cure, as soon as the store is another one, although no page
// is loaded and no look is due; nothing on the page is green then.
func TestReplaced(t *testing.T) {
	s := newScene(t, access.Operator())
	s.hold("nightly", "ada", time.Hour)
	b := open(t, 1200, 900)
	for _, path := range []string{"", "resource?name=nightly"} {
		b.visit(s.url + path)
		b.shows("ada on web1", "Looked")
		if n := eval[int](b, greens); n == 0 {
			t.Errorf("%q: nothing is green although all is well", path)
		}
	}
	s.takes.Store(int64(2 * time.Second))
	b.shows("This is how it was")
	s.known.Replaced(24*time.Hour, false)
	b.shows("The store is another one, or has lost its data", "restart all servers", "wait for 23 h")
	for _, path := range []string{"", "resource?name=nightly", "history"} {
		b.visit(s.url + path)
		b.shows("The store is another one, or has lost its data")
		if n := eval[int](b, greens); n != 0 {
			t.Errorf("%q: %d elements are green", path, n)
		}
	}
}

// A phone shows 50 rows, and a wide window up to 200.
func TestRowsOnPhone(t *testing.T) {
	s := newScene(t, access.Operator())
	for i := range 60 {
		s.hold(fmt.Sprintf("orders/%02d", i), "bob", time.Hour)
	}
	b := open(t, 1280, 900)
	const shown = `[...document.querySelectorAll(".rows tbody tr")].filter(e => e.checkVisibility()).length`
	b.visit(s.url)
	b.shows("60 holds", "orders/59")
	if n := eval[int](b, shown); n != 60 || strings.Contains(b.text(), "These are the first") {
		t.Errorf("%d rows: %s", n, b.text())
	}
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1, Mobile: true})
	b.shows("These are the first 50 of 60: search to see the others.")
	if n := eval[int](b, shown); n != 50 {
		t.Errorf("%d rows", n)
	}
}

// Words without a break wrap, and hide no column.
func TestLongWords(t *testing.T) {
	s := newScene(t, access.Operator())
	long := strings.Repeat("W", 90)
	s.hold(long, long, 4*time.Second)
	s.history.held(long, long, time.Minute, time.Second, "forced")
	b := open(t, 1280, 900)
	s.wait(long, long)
	for _, width := range []int64{1280, 390} {
		call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 844, DeviceScaleFactor: 1, Mobile: width < 400})
		for _, path := range []string{"", "history", "resource?name=" + long} {
			b.visit(s.url + path)
			b.shows(long)
			hidden := eval[int](b, `Math.max(...[document.documentElement, ...document.querySelectorAll(".scroll")].map(e => e.scrollWidth - e.clientWidth))`)
			if hidden > 0 {
				t.Errorf("/%s, %d wide: %d pixels are hidden", path, width, hidden)
			}
		}
	}
}
