package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path, nil)
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func read(t *testing.T, path string) (events []Event) {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	for line := range strings.Lines(string(text)) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	for i, reason := range []string{"first", "second\nthird"} { // the second Log appends
		l := open(t, path)
		l.Note(Event{Action: "acquire", Resource: "r", Outcome: "granted"})
		check(t, l.Record(t.Context(), Event{Action: "force-release", Resource: "r", Reason: reason}))
		events := read(t, path)
		if len(events) != 2*i+2 || events[2*i].Action != "acquire" || events[2*i+1].Reason != reason || events[2*i+1].Time.IsZero() {
			t.Errorf("the file has %+v", events)
		}
		check(t, l.Close())
	}
	info, err := os.Stat(path)
	check(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %04o", info.Mode().Perm())
	}
}

func TestOpenRefused(t *testing.T) {
	dir := t.TempDir()
	for name, path := range map[string]string{
		"a folder":         dir,
		"no such folder":   filepath.Join(dir, "no", "audit"),
		"another kind":     os.DevNull,
		"no name":          "",
		"a broken request": filepath.Join(dir, "a\x00b"),
	} {
		if l, err := Open(path, nil); err == nil {
			_ = l.Close()
			t.Errorf("%s is opened", name)
		}
	}
}

func TestClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := open(t, path)
	for range 100 {
		l.Note(Event{Action: "acquire"})
	}
	check(t, l.Close())
	if n := len(read(t, path)); n != 100 {
		t.Errorf("%d of 100 events are written", n)
	}
	l.Note(Event{Action: "late"})
	if err := l.Record(t.Context(), Event{Action: "late"}); !errors.Is(err, errClosed) || l.Dropped() != 1 {
		t.Errorf("Record returns %v, %d dropped", err, l.Dropped())
	}
	if err := l.Reopen(); !errors.Is(err, errClosed) {
		t.Errorf("Reopen returns %v", err)
	}
	check(t, l.Close())
}

// Events that come too fast are counted, delay nobody, and are told of later.
func TestDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := newLog(path, nil) // its goroutine is not started yet: so slow is the disk
	for i := range queued + 2 {
		l.Note(Event{Action: fmt.Sprint(i)})
	}
	// Who waits is not among them.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Record(ctx, Event{Action: "force-release"}); !errors.Is(err, context.Canceled) || l.Dropped() != 2 {
		t.Errorf("Record returns %v, %d dropped", err, l.Dropped())
	}
	for range queued - 1 {
		check(t, l.put(item{}, 2*queued))
	}
	if err := l.Record(t.Context(), Event{}); !errors.Is(err, errTooMany) || l.Dropped() != 2 {
		t.Errorf("Record returns %v, %d dropped", err, l.Dropped())
	}
	l.queue = append(l.queue[:3], l.queue[queued])
	file, err := openFile(path)
	check(t, err)
	go l.newWriter(file).run()
	check(t, l.Reopen())
	check(t, l.Record(t.Context(), Event{Action: "last"}))
	check(t, l.Close())
	var got []string
	var missing uint64
	for _, e := range read(t, path) {
		if missing += e.Dropped; e.Dropped == 0 {
			got = append(got, e.Action)
		}
	}
	if missing != 2 || fmt.Sprint(got) != "[0 1 2 force-release last]" {
		t.Errorf("the file says that %d are missing, and has %v", missing, got)
	}
}

// A caller that no longer waits gets an error.
func TestRecordEnds(t *testing.T) {
	l := newLog("", nil) // nobody writes
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Record(ctx, Event{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Record returns %v", err)
	}
}

// Force is refused where it cannot be written, and everything is written again once there
// is a file.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Skip("there is no disk that is always full:", err)
	}
	path := filepath.Join(t.TempDir(), "audit")
	var log bytes.Buffer
	l := newLog(path, slog.New(slog.NewTextHandler(&log, nil)))
	go l.newWriter(full).run()
	for range 2 {
		l.Note(Event{Action: "acquire"})
		if err := l.Record(t.Context(), Event{Action: "force-release"}); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("Record returns %v", err)
		}
		if !errors.Is(l.Err(), syscall.ENOSPC) {
			t.Errorf("Err is %v", l.Err())
		}
	}
	check(t, l.Reopen())
	check(t, l.Record(t.Context(), Event{Action: "force-release"}))
	check(t, l.Err())
	events := read(t, path)
	if len(events) != 2 || events[0].Dropped != 4 || l.Dropped() != 4 {
		t.Errorf("%d dropped, and the file has %+v", l.Dropped(), events)
	}
	check(t, l.Close())
	if n := strings.Count(log.String(), "missing in the audit"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

// What follows half a line begins on a line of its own.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	check(t, os.WriteFile(path, []byte(`{"time":"2026-`), 0o600))
	file, err := openFile(path)
	check(t, err)
	w := &writer{log: newLog(path, nil), file: file, torn: true}
	for range 2 {
		w.add(item{event: Event{Action: "acquire"}})
		w.flush()
	}
	check(t, file.Close())
	text, err := os.ReadFile(path)
	check(t, err)
	if lines := strings.Split(string(text), "\n"); len(lines) != 4 || lines[1] != lines[2] || !json.Valid([]byte(lines[1])) {
		t.Errorf("the file is %q", text)
	}
}

// While the file is renamed again and again, each event is in one of the files, once.
func TestReopen(t *testing.T) {
	const writers, each, turns = 8, 200, 20
	dir := t.TempDir()
	path := filepath.Join(dir, "audit")
	l := open(t, path)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				e := Event{Action: "acquire", Resource: fmt.Sprintf("%d/%d", i, j)}
				if j%10 == 0 {
					if err := l.Record(t.Context(), e); err != nil {
						t.Error(err)
					}
				} else {
					l.Note(e)
				}
			}
		})
	}
	for i := range turns {
		check(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		check(t, l.Reopen())
	}
	wg.Wait()
	check(t, l.Close())
	files, err := filepath.Glob(path + "*")
	check(t, err)
	seen := map[string]int{}
	for _, file := range files {
		for _, e := range read(t, file) {
			seen[e.Resource]++
		}
	}
	if len(seen) != writers*each || len(files) != turns+1 || l.Dropped() != 0 {
		t.Errorf("%d events in %d files, %d dropped", len(seen), len(files), l.Dropped())
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("event %s is there %d times", name, n)
		}
	}
	// A file that cannot be made leaves the one before in use.
	check(t, os.Remove(path))
	l = open(t, path)
	check(t, os.Rename(path, path+".old"))
	check(t, os.Mkdir(path, 0o700))
	if err := l.Reopen(); err == nil {
		t.Error("a folder is opened")
	}
	check(t, l.Record(t.Context(), Event{Action: "acquire"}))
	if n := len(read(t, path+".old")); n != 1 {
		t.Errorf("the old file has %d events", n)
	}
}

func BenchmarkNote(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "audit"), nil)
	if err != nil {
		b.Fatal(err)
	}
	e := Event{Caller: "billing", Address: "192.0.2.1", Action: "acquire", Resource: "billing/42", Ref: "0a1b2c3d", Token: 7, Outcome: "granted"}
	for b.Loop() {
		l.Note(e)
	}
	b.ReportMetric(float64(l.Dropped())/float64(b.N), "dropped/op")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// When the disk is full, what is done by force is still written, in the room that was kept.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	var full atomic.Bool
	l := newLog(path, nil)
	l.keep = func(file *os.File, room int64) error {
		if full.Load() {
			return errFull
		}
		return keepRoom(file, room)
	}
	file, err := openFile(path)
	check(t, err)
	go l.newWriter(file).run()
	t.Cleanup(func() { _ = l.Close() })
	force := func() {
		t.Helper()
		check(t, l.Record(t.Context(), Event{Action: "force-release"}))
	}
	note := func() { l.Note(Event{Action: "acquire", Resource: strings.Repeat("x", 1000)}) }
	force()
	full.Store(true)
	for range kept/2/1000 + 1 { // half of it may be used
		note()
		force()
	}
	if err := l.Err(); !errors.Is(err, errFull) {
		t.Errorf("the error is %v", err)
	}
	dropped := l.Dropped()
	note()
	force()
	if l.Dropped() != dropped+1 || !errors.Is(l.Err(), errFull) {
		t.Errorf("%d more are dropped, error %v", l.Dropped()-dropped, l.Err())
	}
	full.Store(false)
	check(t, l.Reopen())
	note()
	force()
	if n := l.Dropped(); n != dropped+1 || l.Err() != nil {
		t.Errorf("%d more are dropped when there is room, error %v", n-dropped, l.Err())
	}
	told := uint64(0)
	for _, e := range read(t, path) {
		told += e.Dropped
	}
	if told != dropped+1 {
		t.Errorf("the file tells of %d of %d", told, dropped+1)
	}
}
