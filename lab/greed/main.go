// Command greed measures what one greedy caller of the server takes from another one: how long
// renewals take, and how many locks the other one still gets, while the first sends as much as
// it can of one kind of requests.
//
// The server, the greedy caller and the other one are three processes; the greedy one has the
// lowest priority, so that it takes work of the server and not the processor.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/audit"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/front"
)

// What must be true whatever the greedy caller does.
const (
	mostLate   = 100 * time.Millisecond // of 99 of 100 renewals
	leastRate  = 0.5                    // of the locks without a greedy caller
	mostMemory = 512                    // MiB
	mostAudit  = 8                      // MiB, of what the greedy one causes
)

// held is how many holds there are that nobody renews.
const held = 20_000

func main() {
	mode := flag.String("mode", "", "internal: serve, or the name of an attack")
	dir := flag.String("dir", "", "internal: the folder of the server's files")
	addr := flag.String("addr", "", "internal: the address of the server")
	same := flag.Bool("same", false, "both are one caller, as on loopback without --auth: only the renewals count")
	lasts := flag.Duration("for", 10*time.Second, "how long each attack lasts")
	only := flag.String("only", "", "the only attack: bodies, denies, lists, pages, queries, sly or streams")
	flag.Parse()
	var err error
	switch *mode {
	case "":
		err = measure(*lasts, *only, *same)
	case "serve":
		err = serve(*dir)
	default:
		attack(*mode, *addr, tokenOf(*dir, nameOf(*same)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "greed:", err)
		os.Exit(1)
	}
}

// nameOf is the name of the greedy caller.
func nameOf(same bool) string {
	if same {
		return "other"
	}
	return "greedy"
}

func tokenOf(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// serve serves locks in memory until its input ends. It prints its address.
func serve(dir string) error {
	store := memlock.New(nil)
	for i := range held {
		q := driver.AcquireRequest{Resource: fmt.Sprintf("held/%d", i), LockID: "x", HoldID: driver.NewHoldID(), TTL: time.Hour}
		if _, err := store.Acquire(context.Background(), q); err != nil {
			return err
		}
	}
	auth, err := access.OpenFile(filepath.Join(dir, "auth.json"), nil)
	if err != nil {
		return err
	}
	log, err := audit.Open(filepath.Join(dir, "audit"), nil)
	if err != nil {
		return err
	}
	b := budget.New(nil)
	keep := func(e server.Event) error {
		log.Note(audit.Event{Caller: e.Caller, Action: e.Action, Outcome: e.Outcome, Resource: e.Resource, Ref: e.Ref, Token: e.Token, Reason: e.Reason})
		return nil
	}
	locks, err := server.New(store, &server.Options{Identify: front.CallerOf, Budget: b, Audit: keep})
	if err != nil {
		return err
	}
	pages, err := dashboard.New(store, &dashboard.Options{Identify: front.CallerOf, Budget: b})
	if err != nil {
		return err
	}
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pages.Serves(r.URL.Path) {
			pages.ServeHTTP(w, r)
			return
		}
		locks.ServeHTTP(w, r)
	})
	f, err := front.Handler(both, &front.Options{Identify: auth.Identify, Budget: b, Store: locks.StoreID})
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	return front.Server(f, nil).Serve(listener)
}

// makeAuth writes an auth file and the tokens of its callers.
func makeAuth(dir string) error {
	var callers []map[string]any
	for name, rules := range map[string]string{
		"other": `[{"resources":"*","may":["lock","look"]}]`, "greedy": `[{"resources":"small/*","may":["lock"]},{"resources":"*","may":["look"]}]`,
	} {
		token, entry, err := access.NewToken(name)
		if err != nil {
			return err
		}
		var caller map[string]any
		if err := json.Unmarshal([]byte(entry), &caller); err != nil {
			return err
		}
		caller["rules"] = json.RawMessage(rules)
		callers = append(callers, caller)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(token), 0o600); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"callers": callers})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "auth.json"), text, 0o600)
}

// figures are what the other caller got.
type figures struct {
	late   time.Duration // of 99 of 100 renewals
	locks  float64       // a second
	failed int64         // renewals
	busy   int64         // acquires and releases
	memory int           // MiB
	audit  int           // MiB
}

func measure(lasts time.Duration, only string, same bool) error {
	bad := false
	fmt.Printf("%-8s %12s %8s %10s %8s %8s %8s\n", "attack", "renewal p99", "failed", "locks/s", "failed", "RSS MiB", "audit MiB")
	show := func(name string, f figures) {
		fmt.Printf("%-8s %12v %8d %10.0f %8d %8d %8d\n", name, f.late.Round(100*time.Microsecond), f.failed, f.locks, f.busy, f.memory, f.audit)
	}
	for _, name := range attacks() {
		if only != "" && only != name {
			continue
		}
		calm, greedy, err := against(name, lasts, same)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		show("none", calm)
		show(name, greedy)
		caused := greedy.audit - calm.audit - int(float64(calm.audit)*greedy.locks/max(calm.locks, 1))
		bad = bad || greedy.late > mostLate || greedy.failed > 0 || greedy.memory > mostMemory || caused > mostAudit
		bad = bad || !same && (greedy.busy > 0 || greedy.locks < leastRate*calm.locks)
	}
	if bad {
		return fmt.Errorf("the other caller must have 99 of 100 renewals within %v, %.0f %% of its locks and no failure, and the server %d MiB at most", mostLate, 100*leastRate, mostMemory)
	}
	return nil
}

// against measures without and then with the attack.
func against(name string, lasts time.Duration, same bool) (calm, greedy figures, err error) {
	dir, err := os.MkdirTemp("", "greed")
	if err != nil {
		return calm, greedy, err
	}
	defer os.RemoveAll(dir)
	if err := makeAuth(dir); err != nil {
		return calm, greedy, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	serves := exec.CommandContext(ctx, os.Args[0], "-mode", "serve", "-dir", dir)
	serves.Stderr = os.Stderr
	stdin, err := serves.StdinPipe() // it ends with this process
	if err != nil {
		return calm, greedy, err
	}
	defer stdin.Close()
	out, err := serves.StdoutPipe()
	if err != nil {
		return calm, greedy, err
	}
	if err := serves.Start(); err != nil {
		return calm, greedy, err
	}
	defer func() { cancel(); _ = serves.Wait() }()
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		return calm, greedy, err
	}
	other := client{addr: addr, token: tokenOf(dir, "other")}
	refs, err := hold(other)
	if err != nil {
		return calm, greedy, err
	}
	see := func() figures {
		f := use(other, refs, lasts)
		f.memory = resident(serves.Process.Pid)
		if info, err := os.Stat(filepath.Join(dir, "audit")); err == nil {
			f.audit = int(info.Size() >> 20)
		}
		return f
	}
	calm = see()
	attacks := exec.CommandContext(ctx, "nice", "-n", "19", os.Args[0], "-mode", name, "-addr", addr, "-dir", dir, fmt.Sprint("-same=", same))
	attacks.Stderr = os.Stderr
	if err := attacks.Start(); err != nil {
		return calm, greedy, err
	}
	defer func() { cancel(); _ = attacks.Wait() }()
	time.Sleep(time.Second)
	return calm, see(), nil
}

// resident returns the memory of a process in MiB.
func resident(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	kib := 0
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d", &kib)
	}
	return kib >> 10
}

// hold acquires what is renewed all the time.
func hold(c client) (refs []wire.Renewal, err error) {
	for i := range 20 {
		g, err := c.acquire(fmt.Sprint("mine/", i))
		if err != nil {
			return nil, err
		}
		refs = append(refs, wire.Renewal{Ref: wire.Ref{Resource: g.Resource, LockID: g.LockID, HoldID: g.HoldID, Token: g.Token}, TTLMs: 60_000})
	}
	return refs, nil
}

// use renews the holds all the time, acquires and releases others, and returns how that went.
func use(c client, refs []wire.Renewal, lasts time.Duration) (f figures) {
	end := time.Now().Add(lasts)
	var failed, busy, locks atomic.Int64
	var took []time.Duration
	var all sync.WaitGroup
	all.Go(func() {
		for time.Now().Before(end) {
			began := time.Now()
			var a wire.RenewAnswer
			err := c.post(wire.RenewPath, wire.RenewRequest{Holds: refs}, &a)
			if err != nil || slices.ContainsFunc(a.Results, func(r wire.RenewResult) bool { return r.Outcome != wire.Renewed }) {
				failed.Add(1)
			}
			took = append(took, time.Since(began))
			time.Sleep(10 * time.Millisecond)
		}
	})
	for i := range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				g, err := c.acquire(fmt.Sprint("lock/", i))
				if err == nil {
					err = c.release(g)
				}
				if err != nil {
					busy.Add(1)
					continue
				}
				locks.Add(1)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	f.late, f.locks = took[len(took)*99/100], float64(locks.Load())/lasts.Seconds()
	f.failed, f.busy = failed.Load(), busy.Load()
	return f
}

// connections is how many the greedy caller has.
const connections = 64
