package browser

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/history"
)

// A page updates itself, and leaves a field alone in which somebody types.
func TestLive(t *testing.T) {
	s := newScene(t, access.Onlooker())
	b := open(t, 1200, 900)
	b.visit(s.url)
	b.shows("Nothing is held, and nobody waits.")
	q := s.hold("nightly", "ada", time.Hour)
	b.shows("1 hold; nobody waits.", "nightly", "ada on web1")
	b.do(chromedp.SendKeys(`input[type=search]`, "night"))
	s.hold("nightly-2", "ada", time.Hour)
	b.shows("nightly-2")
	if got := eval[string](b, `document.activeElement.value + " " + location.search`); got != "night ?q=night" {
		t.Errorf("after the change: %q", got)
	}
	s.release(q)
	b.shows("1 hold; nobody waits.")
	if text := b.text(); strings.Contains(text, "nightly ") {
		t.Errorf("it still shows %s", text)
	}
}

// Two windows of a browser share one stream.
func TestOneStream(t *testing.T) {
	s := newScene(t, access.Onlooker())
	b := open(t, 1200, 900)
	b.visit(s.url)
	b.shows("Nothing is held")
	ctx, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	other := &browser{T: t, ctx: ctx}
	other.visit(s.url + "history")
	other.shows("Who held what")
	locks := eval[int](other, `navigator.locks.query().then(q => q.held.length + 10 * q.pending.length)`)
	if locks != 11 {
		t.Errorf("%d streams and, times ten, windows that wait for one", locks)
	}
}

func TestWithoutJavaScript(t *testing.T) {
	s := newScene(t, access.Operator())
	q := s.hold("nightly", "ada", time.Hour)
	b := open(t, 1200, 900)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	s.history.nightlyRuns("nightly", "ada")
	for path, says := range map[string]string{
		"": "Lost in the last hour", "resource?name=nightly": "Who held it before", "?q=night": "nightly",
		"history": "released by force", "history?name=nightly": "ended without a release",
	} {
		b.visit(s.url + path)
		b.shows(says)
	}
	b.visit(s.url)
	b.shows("1 hold; nobody waits.", "nightly")
	b.visit(s.url + "resource?name=nightly")
	b.shows("ada on web1", "Time left")
	for _, button := range []string{"Look now", "Sign out"} {
		if strings.Contains(b.text(), button) {
			t.Errorf("there is a button %q that does nothing", button)
		}
	}
	b.do(chromedp.Click(`[data-release]`))
	b.shows("Release by force", "ada on web1", "This needs JavaScript.", "holdfast unlock --force nightly")
	s.release(q)
}

// On a phone the window shows whole rows, and does not break durations and words.
func TestPhone(t *testing.T) {
	s := newScene(t, access.Operator())
	s.hold("reports/"+strings.Repeat("nightly/", 8), "ada", 130*time.Minute)
	s.history.held("r", "eve", time.Hour, 130*time.Second, history.Released)
	b := open(t, 390, 844)
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1, Mobile: true})
	s.history.held("r", "nobody", 30*time.Minute, time.Minute, history.Lost)
	s.hold("r", "kay", time.Hour)
	s.wait("r", "eve")
	for path, says := range map[string]string{"": "Lost in the last hour", "history": "2 min 10 s", "resource?name=r": "Who waits"} {
		b.visit(s.url + path)
		b.shows(says)
		if n := eval[int](b, `[...document.querySelectorAll("time, .who span, thead th")].filter(e => {
			const range = document.createRange();
			range.selectNodeContents(e);
			return new Set([...range.getClientRects()].map(r => r.top)).size > 1;
		}).length`); n > 0 {
			t.Errorf("/%s: %d durations or words are broken", path, n)
		}
		if wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
			t.Errorf("/%s is too wide by %d", path, wide)
		}
		if wide := eval[int](b, `Math.max(0, ...[...document.querySelectorAll(".scroll")].map(e => e.scrollWidth - e.clientWidth))`); wide > 0 {
			t.Errorf("/%s: a table is too wide by %d", path, wide)
		}
	}
}

// The filters are in one line.
func TestFiltersAlign(t *testing.T) {
	s := newScene(t, access.Operator())
	s.hold("r", "ada", time.Hour)
	b := open(t, 1200, 900)
	b.visit(s.url)
	b.shows("1 hold")
	if n := eval[int](b, `new Set([...document.querySelectorAll(".filters label")].map(e => Math.round(e.getBoundingClientRect().top))).size`); n != 1 {
		t.Errorf("they stand in %d lines", n)
	}
}

// If the server does not answer any more, a page shows neither that all is well nor a past time
// as if it were in the future.
func TestServerGone(t *testing.T) {
	s := newScene(t, access.Operator())
	s.hold("nightly", "ada", 20*time.Second)
	b := open(t, 1200, 900)
	b.visit(s.url)
	b.shows("Nothing is stuck. 1 hold")
	const dot = `getComputedStyle(document.querySelector(".summary"), "::before").backgroundColor`
	green := eval[string](b, dot)
	eval[bool](b, `(window.fetch = async () => { throw new TypeError("no answer") }, true)`)
	s.hold("other", "eve", time.Hour)
	b.shows("The server does not answer.", "none, unless it was renewed")
	if grey := eval[string](b, dot); grey == green {
		t.Errorf("it is marked by %s still", grey)
	}
}

func TestForce(t *testing.T) {
	s := newScene(t, access.Operator())
	name := "jobs/\u202e<b>\r\n"
	s.hold(name, "ada", time.Hour)
	b := open(t, 1200, 900)
	b.visit(s.url + "resource?" + url.Values{"name": {name}}.Encode())
	b.shows("Release…")
	b.do(chromedp.Click(`[data-release]`))
	b.shows("it may go on until its next renewal")
	b.do(chromedp.SendKeys(`#reason`, "its host is gone"), chromedp.Click(`#dialog [type=submit]`))
	b.shows("Released.", "Nobody held it at the last look.")
}

// Names are text wherever a page shows them.
func TestHostileNames(t *testing.T) {
	s := newScene(t, access.Operator())
	names := []string{
		`<img src=x onerror="document.title='pwned'">`, `"><script>document.title="pwned"</script>`, "\u202egnp.exe\u2066",
		"javascript:document.title='pwned'", strings.Repeat("W", 1024), "a'b\"c&amp;<d>",
	}
	for _, name := range names {
		s.hold(name, name, time.Hour)
		s.history.held(name, name, time.Minute, time.Second, history.Forced)
	}
	b := open(t, 400, 800)
	pages := []string{"", "history"}
	for _, name := range names {
		pages = append(pages, "resource?"+url.Values{"name": {name}}.Encode(), "?"+url.Values{"q": {name}}.Encode(), "history?"+url.Values{"name": {name}}.Encode())
	}
	for _, page := range pages {
		b.visit(s.url + page)
		b.shows("Holdfast")
		if title := eval[string](b, `document.title`); strings.Contains(title, "pwned") && !strings.Contains(page, "pwned") || title == "pwned" {
			t.Errorf("%s: the title is %q", page, title)
		}
		if n := eval[int](b, `document.querySelectorAll("img, main script, iframe").length`); n != 0 {
			t.Errorf("%s: %d elements of a name", page, n)
		}
		if wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
			t.Errorf("%s is %d pixels wider than its window", page, wide)
		}
	}
}

// axe finds no accessibility problem on any page, in both colour schemes, on a phone and on a
// wide screen.
func TestAccessible(t *testing.T) {
	axe := axeCore(t)
	s := newScene(t, access.Operator())
	s.hold("nightly", "ada", 20*time.Second)
	for i := range 30 {
		s.hold(fmt.Sprintf("orders/%d", i), "bob", time.Hour)
	}
	id := driver.NewHoldID()
	_, _ = s.store.Acquire(t.Context(), driver.AcquireRequest{
		Resource: "nightly", LockID: "waiter", HoldID: id, TTL: time.Minute, Place: driver.NewPlaceID(),
	})
	s.history.nightlyRuns("nightly", "ada")
	for _, width := range []int{360, 1600} {
		b := open(t, width, 900)
		for _, dark := range []bool{false, true} {
			for _, page := range []string{"", "resource?name=nightly", "resource?name=free", "history", "history?name=nightly", "login", "?q=none"} {
				b.visit(s.url + page)
				b.dark(dark)
				b.shows("Holdfast")
				eval[bool](b, axe+"; true")
				found := eval[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html + " " + n.failureSummary)])))`)
				var violations []any
				if err := json.Unmarshal([]byte(found), &violations); err != nil || len(violations) > 0 {
					t.Errorf("%q, %d wide, dark %v: %s", page, width, dark, found)
				}
				if wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
					t.Errorf("%q is %d pixels wider than %d", page, wide, width)
				}
			}
		}
	}
}

// axeCore returns the script of axe, which npm downloads once.
func axeCore(t *testing.T) string {
	t.Helper()
	cache, err := filepath.Abs("../../.cache/axe-core-4.14.1")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cache, "node_modules", "axe-core", "axe.min.js")
	if text, err := os.ReadFile(file); err == nil {
		return string(text)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		skipOrFail(t, "browser", "there is no npm to download axe-core by")
	}
	if out, err := exec.CommandContext(t.Context(), npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", cache, "axe-core@4.14.1").CombinedOutput(); err != nil {
		skipOrFail(t, "browser", fmt.Sprintf("npm cannot download axe-core: %v: %s", err, out))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
