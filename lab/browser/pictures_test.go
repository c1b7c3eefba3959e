package browser

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/server/access"
)

var pictures = flag.String("pictures", "", "the folder to write the pictures of the docs to")

// TestPictures takes the pictures for the documents: programs that lock, and a lock with
// waiters whose holder was killed.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("without -pictures")
	}
	s := newScene(t, access.Operator())
	client := func(owner, host string) *holdfast.Client {
		c := holdfast.New(s.store, &holdfast.Options{Owner: owner, Host: host, TTL: 20 * time.Second})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	lock := func(c *holdfast.Client, resource, comment string) {
		if _, err := c.Lock(t.Context(), resource, &holdfast.LockOptions{Comment: comment}); err != nil {
			t.Fatal(err)
		}
	}
	billing, reports, deploy := client("billing", "web1"), client("reports", "web2"), client("deploy", "ci4")
	for _, resource := range []string{"invoices/2026-11", "invoices/2026-10", "ledger"} {
		lock(billing, resource, "month's end")
	}
	lock(deploy, "migrate", "schema 214")
	lock(reports, "warehouse", "")
	dead := s.hold("nightly", "cron", 20*time.Second) // nobody renews it
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range []*holdfast.Client{reports, billing} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.Lock(ctx, "nightly", &holdfast.LockOptions{Fair: true})
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	b := open(t, 1200, 900)
	b.dark(false)
	b.visit(s.url)
	b.shows("needs a look", "never renewed")
	b.picture("dashboard", chromedp.CaptureScreenshot())
	s.release(dead)
	s.history.nightlyRuns("nightly", "cron")
	s.history.held("nightly", "reports", 10*time.Second, 0, "")
	b.visit(s.url + "resource?name=nightly")
	b.shows("reports on web2", "Who held it before")
	b.picture("resource", chromedp.FullScreenshot(100)) // as PNG
}

// picture writes a picture of the window to a file.
func (b *browser) picture(name string, take chromedp.Action[[]byte]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, take)
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}
