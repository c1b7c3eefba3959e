//go:build linux

package recipes

import (
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/engines"
)

// crontab returns a function that starts the command of a crontab with one line as cron does:
// in HOME, without a terminal, and only with the variables of cron and of the crontab.
func (s *stage) crontab(text string) func() *run {
	s.Helper()
	env := []string{"HOME=" + s.dir, "LOGNAME=ada", "SHELL=/bin/sh", "HOLDFAST_TTL=" + ttl}
	var command string
	for line := range strings.Lines(s.here(text)) {
		line = strings.TrimSpace(line)
		name, _, assigns := strings.Cut(line, "=")
		switch {
		case assigns && !strings.ContainsAny(name, " *"):
			env = append(env, line)
		case command != "":
			s.Fatalf("more than one command in\n%s", text)
		default:
			f := strings.SplitN(line, " ", 6)
			command = f[5]
		}
	}
	if strings.Contains(command, "%") {
		s.Errorf("cron reads the %% in %q as the end of a line", command)
	}
	return func() *run { return s.startIn(env, "/bin/sh", "-c", command) }
}

// here replaces the reader's store and folder with the stage's.
func (s *stage) here(text string) string {
	return strings.NewReplacer("redis://locks.example.com/0", s.store, "/usr/local/bin", s.bin, "/usr/bin/holdfast", s.bin+"/holdfast").Replace(text)
}

func TestCronSkips(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) []string{
		"sqlite": func(*testing.T) []string { return nil },
		"redis": func(t *testing.T) []string {
			u, err := url.Parse(engines.Redis(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			u.RawQuery = url.Values{"prefix": {engines.RedisPrefix(t)}}.Encode()
			return []string{u.String()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t, store(t)...)
			s.command("report.sh")
			s.checkSkips(s.crontab(recipe(t, "cron-skip")), 0, "")
		})
	}
}

func TestCronWaits(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("backup.sh")
	s.checkWaits("backup", s.crontab(recipe(t, "cron-wait")))
}

// A lock that nobody has had for long is no reason for a mail.
func TestCronAlerts(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("report.sh")
	text := recipe(t, "cron-alert")
	start := s.crontab(recipe(t, "cron-skip"))
	job := start()
	s.awaitBegun(1)
	fresh := s.crontab(text)()
	fresh.exits(1) // of grep: there is nothing to mail
	late := s.crontab(strings.Replace(text, "6h", "1ms", 1))()
	late.exits(0)
	if got := fresh.printed(); got != "" {
		t.Errorf("cron would mail %q", got)
	}
	if got := late.printed(); !strings.Contains(got, "report.sh, pid") {
		t.Errorf("cron would mail %q, without the holder", got)
	}
	s.letEnd(1)
	job.exits(0)
}

// The digest takes no time, and the clock of the second machine is behind.
func TestCronOnce(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("digest.sh")
	s.letEnd(1)
	start := s.crontab(recipe(t, "cron-once"))
	first := start()
	first.exits(0)
	second := start()
	second.exits(0)
	s.checkBegun(1)
	if got := first.printed() + second.printed(); got != "" {
		t.Errorf("cron would mail %q", got)
	}
}
