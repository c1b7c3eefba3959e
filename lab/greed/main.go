//go:build linux

// Command greed measures what a greedy caller of holdfast serve takes from others: how long
// renewals take, and how many locks another caller still gets, while the first sends as much as it
// can of one kind of requests.
//
// The server has a processor of its own, and the callers have the others, the greedy one with the
// lowest priority: so it takes work of the server, and no time of a processor from others. There
// are three ways to the server:
//
//	auth    TLS with --auth: another name is compared with the greedy one, which has one small
//	        right; the greedy caller's own renewals are measured, too
//	open    loopback without --auth: the operator at the socket is compared, and the renewals of
//	        loopback, which is one caller
//	socket  two users of the socket: root, and the user of the server, who is greedy (needs root)
//
// These attacks were once possible, and took this:
//
//	denies, sly            the audit's disk, and so all force: by denied batches of a small right
//	pages, queries         the processors, until others' locks were lost
//	lists                  all lists, and so the operator's way to force
//	bodies, headers, idle  memory, by requests that are not complete
//	filters, lockids       the store, by lists of which nothing is shown
//	history                the history, by pushing everybody out
//	invented               the store, by renewals that came before the first was charged
//	resets, tunnels        the processors, by requests of HTTP/2 that were taken back
//	streams                all live pages
//
// The others try what could be: watches, forced releases that are denied, callers who are not known,
// handshakes, what everybody may read, and answers that nobody reads.
//
// A caller may acquire, wait and release as often as acquires, history and waits do. Callers take
// turns at the store, but each connection has a part of the processors: of these attacks it counts
// that nothing fails and that memory is bounded. What is granted is always in the audit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// What must be true whatever the greedy caller does.
const (
	mostLate   = 100 * time.Millisecond // of 99 of 100 renewals
	leastRate  = 0.5                    // of the locks without a greedy caller
	mostMemory = 512                    // MiB
	mostGrown  = 8                      // MiB a second by which files grow
)

func main() {
	mode := flag.String("mode", "", "internal: an attack, with the way to the server")
	lasts := flag.Duration("for", 4*time.Second, "how long each attack lasts")
	only := flag.String("only", "", "the only attacks, with commas: "+strings.Join(attacks(), ", "))
	way := flag.String("way", "", "the only way to the server: "+strings.Join(ways, ", "))
	flag.Parse()
	if *mode != "" {
		beGreedy(*mode, flag.Args())
	}
	err := measure(*lasts, choice(*way, ways), choice(*only, attacks()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "greed:", err)
		os.Exit(1)
	}
}

func choice(only string, all []string) []string {
	if only == "" {
		return all
	}
	return strings.Split(only, ",")
}

// measure prints a line for each attack, and fails if one of them takes too much.
func measure(lasts time.Duration, ways, attacks []string) error {
	disk := "/dev/shm" // in memory: what others write to a disk would be measured, too
	if _, err := os.Stat(disk); err != nil {
		disk = ""
	}
	dir, err := os.MkdirTemp(disk, "greed")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := prepare(dir)
	if err != nil {
		return err
	}
	fmt.Printf("%-6s %-10s %9s %9s %9s %9s %9s %7s %7s %8s  %s\n", "way", "attack", "p99", "own p99", "calm p99", "locks/s", "without", "RSS MiB", "files/s", "requests", "missed")
	bad := 0
	for _, way := range ways {
		if way == "socket" && os.Getuid() != 0 {
			fmt.Println("socket: left out, because it needs root")
			continue
		}
		for _, name := range attacks {
			if way == "socket" && name == "forces" { // all there may do so
				continue
			}
			r, err := p.against(way, name, lasts)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", way, name, err)
			}
			missed := r.missed()
			if missed != "" {
				bad++
			}
			fmt.Printf("%-6s %-10s %9v %9v %9v %9.0f %9.0f %7d %7.1f %8d  %s\n", way, name, r.other.late.Round(100*time.Microsecond), r.own.late.Round(100*time.Microsecond), r.calm.late.Round(100*time.Microsecond), r.other.rate, r.calm.rate, r.memory, r.grown, r.tried, missed)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d attacks took more than they may: 99 of 100 renewals must be answered within %v, nothing may fail, another caller must get %.0f %% of its locks, and the server have %d MiB at most", bad, mostLate, 100*leastRate, mostMemory)
	}
	return nil
}

// result is what became of others during an attack.
type result struct {
	calm, other use     // of another caller, before and during the attack
	own         use     // of the greedy one, or of who cannot be told from it: renewals alone
	memory      int     // MiB
	grown       float64 // MiB a second that the audit and the history have grown
	tried       int64   // requests of the greedy caller
	within      bool    // as greedy.within
}

// missed says which budgets are missed.
func (r *result) missed() string {
	var texts []string
	for text, is := range map[string]bool{
		"renewals fail": r.other.failed+r.own.failed > 0,
		"late":          !r.within && max(r.other.late, r.own.late) > mostLate,
		"few locks":     !r.within && r.other.rate < leastRate*r.calm.rate,
		"locks fail":    r.other.busy > 0, "memory": r.memory > mostMemory, "files": !r.within && r.grown > mostGrown, "no attack": r.tried == 0,
	} {
		if is {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// against measures without and then with the attack.
func (p *prepared) against(way, name string, lasts time.Duration) (r result, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := p.serve(ctx, way, name)
	if err != nil {
		return r, err
	}
	defer s.end()
	r.within = all[name].within
	other, own := s.caller(p, false, name), s.caller(p, true, name)
	mine, err := hold(other, "mine")
	if err != nil {
		return r, err
	}
	theirs, err := hold(own, "small")
	if err != nil {
		return r, err
	}
	r.calm = use{locks: true}
	r.calm.measure(other, mine, lasts/4) // until all is as usual
	r.calm.measure(other, mine, lasts)
	before := s.files()
	greedy := exec.CommandContext(ctx, "nice", "-n", "19", "taskset", "-c", callersOn, os.Args[0], "-mode", name, way, s.addr, s.socket, own.token)
	greedy.Stderr = os.Stderr
	stdout, err := greedy.StdoutPipe()
	if err != nil {
		return r, err
	}
	stdin, err := greedy.StdinPipe() // it ends with this process
	if err != nil {
		return r, err
	}
	if err := greedy.Start(); err != nil {
		return r, err
	}
	time.Sleep(time.Second) // until the attack has all that it opens
	r.other, r.own = use{locks: true}, use{}
	var both sync.WaitGroup
	both.Go(func() { r.own.measure(own, theirs, lasts) })
	both.Go(func() { r.other.measure(other, mine, lasts) })
	both.Wait()
	r.grown = max(0, float64(s.files()-before)/(1<<20)/(lasts.Seconds()+1)-s.usual(&r))
	r.memory = resident(s.process.Process.Pid)
	_ = stdin.Close()
	_, _ = fmt.Fscan(stdout, &r.tried)
	if err := greedy.Wait(); err != nil && ctx.Err() == nil {
		return r, fmt.Errorf("the attack ended: %w", err)
	}
	return r, nil
}

// resident returns the most memory that a process has had, in MiB.
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
func hold(c *caller, folder string) (refs []wire.Renewal, err error) {
	for i := range 20 {
		g, err := c.acquire(fmt.Sprint(folder, "/kept-", i))
		if err != nil {
			return nil, err
		}
		ref := wire.Ref{Resource: g.Resource, LockID: g.LockID, HoldID: g.HoldID, Token: g.Token}
		refs = append(refs, wire.Renewal{Ref: ref, TTLMs: 60_000})
	}
	return refs, nil
}

// use is what a caller does, and how that went.
type use struct {
	locks  bool          // it also acquires and releases
	late   time.Duration // of 99 of 100 renewals
	failed int           // renewals
	rate   float64       // locks a second
	busy   int64         // acquires and releases that failed
	why    error         // of one of them
}

// measure renews the holds all the time, and acquires and releases others.
func (u *use) measure(c *caller, refs []wire.Renewal, lasts time.Duration) {
	end := time.Now().Add(lasts)
	var took []time.Duration
	var locks, busy atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for time.Now().Before(end) {
			began := time.Now()
			if err := c.renew(refs); err != nil {
				u.failed, u.why = u.failed+1, err
			}
			took = append(took, time.Since(began))
			time.Sleep(10 * time.Millisecond)
		}
	})
	for i := range 4 {
		if !u.locks {
			break
		}
		all.Go(func() {
			for time.Now().Before(end) {
				g, err := c.acquire(fmt.Sprint("mine/lock-", i))
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
	u.late, u.rate, u.busy = took[len(took)*99/100], float64(locks.Load())/lasts.Seconds(), busy.Load()
}

var errOutcome = errors.New("a hold was not renewed")
