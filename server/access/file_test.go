package access

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/server/internal/follow"
)

// newCaller returns a token and the entry of a caller that may lock the resources.
func newCaller(t *testing.T, name, resources string) (token, entry string) {
	t.Helper()
	token, entry, err := NewToken(name)
	if err != nil {
		t.Fatal(err)
	}
	return token, strings.Replace(entry, `"rules":[]`, `"rules":[{"resources":"`+resources+`","may":["lock"]}]`, 1)
}

func callers(entries ...string) string {
	return `{"callers": [` + strings.Join(entries, ",\n") + `]}`
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, log *slog.Logger) *File {
	t.Helper()
	f, err := OpenFile(path, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func request(t *testing.T, authorization ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["Authorization"] = authorization
	return r
}

func identified(t *testing.T, f *File, token string) Caller {
	t.Helper()
	c, err := f.Identify(request(t, "Bearer "+token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestIdentify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	a, entryA := newCaller(t, "a", "a/*")
	b, entryB := newCaller(t, "b", "b/*")
	stranger, _ := newCaller(t, "a", "a/*")
	write(t, path, callers(entryA, entryB))
	f := open(t, path, nil)
	for name, c := range map[string]struct {
		authorization []string
		want, wrong   string
	}{
		"a's token":            {[]string{"Bearer " + a}, "a", ""},
		"b's token":            {[]string{"bearer " + b}, "b", ""},
		"nothing":              {nil, "", "neither a token"},
		"an empty header":      {[]string{""}, "", "not of the form"},
		"a token by itself":    {[]string{a}, "", "not of the form"},
		"no token":             {[]string{"Bearer "}, "", "no token"},
		"two spaces":           {[]string{"Bearer  " + a}, "", "no token"},
		"Basic":                {[]string{"Basic " + a}, "", "not of the form"},
		"a stranger's token":   {[]string{"Bearer " + stranger}, "", "not known"},
		"half a token":         {[]string{"Bearer " + a[:40]}, "", "cut off"},
		"two headers":          {[]string{"Bearer " + a, "Bearer " + a}, "", "2 headers"},
		"two headers, one bad": {[]string{"Bearer " + a, ""}, "", "2 headers"},
		"two in one header":    {[]string{"Bearer " + a + ", Bearer " + b}, "", "no token"},
		"a's hash":             {[]string{"Bearer " + fmt.Sprintf("%x", hashToken(a))}, "", "no token"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.Identify(request(t, c.authorization...))
			if c.want != "" {
				if err != nil || got.Name() != c.want || !got.May(Lock, c.want+"/x") || got.May(Lock, "c/x") || got.May(Look, c.want+"/x") {
					t.Errorf("caller %v, error %v, want %s", got, err, c.want)
				}
				return
			}
			if got != nil || !errors.Is(err, ErrAnonymous) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("caller %v, error %v, want ErrAnonymous with %q", got, err, c.wrong)
			}
			for _, secret := range []string{a, b, stranger} {
				if err != nil && strings.Contains(err.Error(), secret[:20]) {
					t.Errorf("the error repeats the token: %v", err)
				}
			}
		})
	}
}

func TestOpenFileRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "auth.json")
	for name, prepare := range map[string]func() error{
		"no such file":       func() error { return os.Remove(path) },
		"a broken file":      func() error { return os.WriteFile(path, []byte(`{"callers":[`), 0o600) },
		"an empty file":      func() error { return os.WriteFile(path, nil, 0o600) },
		"written by a group": func() error { return os.Chmod(path, 0o660) },
		"written by all":     func() error { return os.Chmod(path, 0o602) },
		"a huge file":        func() error { return os.Truncate(path, maxFile+1) },
		"a folder":           func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a broken link":      func() error { return errors.Join(os.Remove(path), os.Symlink("nowhere", path)) },
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasPrefix(name, "written") {
				t.Skip("files have no such rights on Windows")
			}
			_ = os.RemoveAll(path)
			write(t, path, `{"callers":[]}`)
			if err := prepare(); err != nil {
				t.Fatal(err)
			}
			f, err := OpenFile(path, nil)
			if err == nil {
				f.Close()
			}
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one that names the file", err)
			}
		})
	}
}

// What happens to a file in use: after each step, a second later, a may lock what is said.
func TestFileChanges(t *testing.T) {
	a, entryA := newCaller(t, "a", "old/*")
	a2, entryA2 := newCaller(t, "a", "old/*")
	_, entryB := newCaller(t, "b", "b")
	entryNew := strings.Replace(entryA, "old/*", "new/*", 1)
	rotated := strings.Replace(entryA, `"tokenSha256":[`, `"tokenSha256":["`+fmt.Sprintf("%x", hashToken(a2))+`",`, 1)

	for name, c := range map[string]struct {
		text        string // of the file then, or "-" for none
		oldMay, may bool   // lock old/x and new/x
		changed     bool   // its channel is closed
		ok          bool   // Err is nil
	}{
		"the same":             {callers(entryA), true, false, false, true},
		"another caller comes": {callers(entryB, entryA), true, false, false, true},
		"other white space":    {" " + callers(entryA) + "\n", true, false, false, true},
		"another right":        {callers(entryNew), false, true, true, true},
		"a second token":       {callers(rotated), true, false, true, true},
		"another token":        {callers(entryA2), false, false, true, true},
		"removed":              {callers(entryB), false, false, true, true},
		"all removed":          {callers(), false, false, true, true},
		"empty":                {"", true, false, false, false},
		"broken":               {`{"callers":[}`, true, false, false, false},
		"half written":         {callers(entryNew, entryB)[:len(callers(entryNew))+5], true, false, false, false},
		"a typo":               {strings.Replace(callers(entryNew), "rules", "rule", 1), true, false, false, false},
		"missing":              {"-", true, false, false, false},
		"too big":              {callers(entryNew) + strings.Repeat(" ", maxFile), true, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "auth.json")
			write(t, path, callers(entryA))
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				f := open(t, path, slog.New(slog.NewTextHandler(&log, nil)))
				caller := identified(t, f, a)
				changed := caller.Changed()
				if c.text == "-" {
					_ = os.Remove(path)
				} else {
					write(t, path, c.text)
				}
				time.Sleep(5*follow.Period + time.Millisecond)
				synctest.Wait()

				if may := caller.May(Lock, "old/x"); may != c.oldMay || (caller.MaxTTL("old/x") > 0) != may {
					t.Errorf("may lock what it could before: %v", may)
				}
				if caller.May(Lock, "new/x") != c.may || caller.MayAll(Lock) {
					t.Errorf("may lock other resources: %v", caller.May(Lock, "new/x"))
				}
				if isClosed(changed) != c.changed {
					t.Errorf("the channel is closed: %v", !c.changed)
				}
				if isClosed(caller.Changed()) != (!c.oldMay && !c.may) {
					t.Errorf("a new channel is closed: %v", isClosed(caller.Changed()))
				}
				if named := strings.Contains(log.String(), "names=[a]"); named != c.changed {
					t.Errorf("the log names the caller: %v\n%s", named, &log)
				}
				if (f.Err() == nil) != c.ok {
					t.Errorf("Err is %v", f.Err())
				}
				if n := strings.Count(log.String(), "stays in force"); (n == 0) != c.ok || n > 1 {
					t.Errorf("logged %d times that the file is broken:\n%s", n, log.String())
				}
				if strings.Contains(log.String(), a) {
					t.Error("the token is in the log")
				}

				// Repaired, it is in force again.
				write(t, path, callers(entryNew))
				time.Sleep(follow.Period + time.Millisecond)
				synctest.Wait()
				if f.Err() != nil || caller.May(Lock, "old/x") || !caller.May(Lock, "new/x") {
					t.Errorf("after the repair: Err %v, may lock as before %v and as now %v", f.Err(), caller.May(Lock, "old/x"), caller.May(Lock, "new/x"))
				}
			})
		})
	}
}

// A broken file that becomes again what it was changes nothing, and is no longer reported.
func TestFileBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	a, entry := newCaller(t, "a", "r")
	write(t, path, callers(entry))
	synctest.Test(t, func(t *testing.T) {
		f := open(t, path, nil)
		changed := identified(t, f, a).Changed()
		for range 2 {
			write(t, path, callers(entry)[:20])
			time.Sleep(follow.Period + time.Millisecond)
			synctest.Wait()
			if f.Err() == nil {
				t.Error("Err is nil while the file is broken")
			}
			write(t, path, callers(entry))
			time.Sleep(follow.Period)
			synctest.Wait()
			if f.Err() != nil || isClosed(changed) {
				t.Errorf("Err is %v, the channel is closed: %v", f.Err(), isClosed(changed))
			}
		}
	})
}

// Kubernetes has the file behind two links, and replaces the first by a rename.
func TestFileBehindLinks(t *testing.T) {
	dir := t.TempDir()
	a, entryA := newCaller(t, "a", "r")
	b, entryB := newCaller(t, "b", "r")
	for version, entry := range map[string]string{"..v1": entryA, "..v2": entryB} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "auth.json"), callers(entry))
		// The two cannot be told apart by time or size.
		moment := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(filepath.Join(dir, version, "auth.json"), moment, moment); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		if err := errors.Join(os.Symlink(to, filepath.Join(dir, "tmp")), os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "..data"))); err != nil {
			t.Skip("there are no links here:", err)
		}
	}
	link("..v1")
	path := filepath.Join(dir, "auth.json")
	if err := os.Symlink(filepath.Join("..data", "auth.json"), path); err != nil {
		t.Skip("there are no links here:", err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := open(t, path, nil)
		first := identified(t, f, a)
		changed := first.Changed()
		link("..v2")
		if err := os.RemoveAll(filepath.Join(dir, "..v1")); err != nil {
			t.Fatal(err)
		}
		<-changed
		if first.May(Lock, "r") {
			t.Error("the removed caller may still lock")
		}
		if _, err := f.Identify(request(t, "Bearer "+a)); !errors.Is(err, ErrAnonymous) {
			t.Errorf("its token: error %v", err)
		}
		if !identified(t, f, b).May(Lock, "r") {
			t.Error("the new caller may not lock")
		}
	})
}

// Callers are asked while the file changes under them: each answer is that of one file.
func TestFileConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	a, entry := newCaller(t, "a", "r")
	write(t, path, callers(entry))
	synctest.Test(t, func(t *testing.T) {
		f := open(t, path, nil)
		caller := identified(t, f, a)
		for range 8 {
			go func() {
				for {
					select {
					case <-t.Context().Done():
						return
					case <-caller.Changed():
					}
					if caller.May(Force, "r") {
						t.Error("a right that no file gives")
					}
					time.Sleep(time.Millisecond)
				}
			}()
		}
		for i := range 20 {
			_, other := newCaller(t, fmt.Sprint("other", i), "r")
			write(t, path, callers(strings.Replace(entry, `"r"`, fmt.Sprintf(`"r%d"`, i), 1), other))
			time.Sleep(follow.Period)
		}
		write(t, path, callers(entry))
		time.Sleep(follow.Period + time.Millisecond)
		synctest.Wait()
		if !caller.May(Lock, "r") {
			t.Error("the caller may not lock in the end")
		}
	})
}

// What limits how long holders may work whose store is gone.
func TestLongestTTL(t *testing.T) {
	for name, c := range map[string]struct {
		rules   string
		longest time.Duration
		endless bool
	}{
		"the default":    {`{"resources":"a","may":["lock"]},{"resources":"b","may":["lock"],"maxTtl":"1h"}`, 24 * time.Hour, false},
		"longer":         {`{"resources":"a","may":["lock"]},{"resources":"b","may":["lock"],"maxTtl":"48h"}`, 48 * time.Hour, false},
		"shorter":        {`{"resources":"a","may":["lock"],"maxTtl":"30s"},{"resources":"*","may":["look"]}`, 30 * time.Second, false},
		"without an end": {`{"resources":"a","may":["lock"],"maxTtl":"1h"},{"resources":"b","may":["lock"],"maxTtl":"forever"}`, time.Hour, true},
		"nobody locks":   {`{"resources":"*","may":["look"]}`, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "auth.json")
			text := `{"callers":[{"name":"a","certificateNames":["a.example"],"rules":[` + c.rules + `]}]}`
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := OpenFile(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if longest, endless := f.LongestTTL(); longest != c.longest || endless != c.endless {
				t.Errorf("%v, %v", longest, endless)
			}
		})
	}
}
