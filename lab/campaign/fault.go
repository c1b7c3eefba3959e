//go:build unix

package campaign

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/hosts"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// fault is a fault that lasts for a while. run returns when it is over.
type fault struct {
	name string
	// can reports whether the fault is possible in this campaign; nil: in every one.
	can func(c *campaign) bool
	run func(c *campaign, lasts time.Duration) error
}

func onNetwork(c *campaign) bool { return !c.place.file && !c.place.direct }

// by reports whether the server has the methods T for a fault.
func by[T any](c *campaign) bool {
	_, can := c.place.server.(T)
	return can
}

// network returns a fault of the connections of some or all processes.
func network(name string, f proxy.Fault) fault {
	return fault{name, onNetwork, func(c *campaign, lasts time.Duration) error {
		c.disturb(f, lasts)
		return nil
	}}
}

func (c *campaign) disturb(f proxy.Fault, lasts time.Duration) {
	some := c.randomPlaces()
	for _, i := range some {
		c.networks[i].Set(f)
	}
	c.pause(lasts)
	for _, i := range some {
		c.networks[i].Set(proxy.Fault{})
	}
}

// partition returns a fault of the network between the host of a client and the host of the
// server: packets vanish in one direction or in both.
func partition(name string, answers, requests bool) fault {
	return fault{name, func(c *campaign) bool { return c.hosts != nil }, func(c *campaign, lasts time.Duration) (err error) {
		server, client := c.hosts.Host(serverHost), c.hostOf(c.rnd.IntN(len(clientHosts)))
		each := func(do func(from, to *hosts.Host) error) {
			if answers {
				err = errors.Join(err, do(server, client))
			}
			if requests {
				err = errors.Join(err, do(client, server))
			}
		}
		each(c.hosts.Drop)
		c.pause(lasts)
		each(c.hosts.Pass)
		return err
	}}
}

// Partitions are the names of the faults of a network between hosts.
var Partitions = []string{"answers do not reach a host", "requests do not leave a host", "a host is cut off"}

// Names of common faults.
const (
	Breaks = "connections break now and then"
	Slow   = "the network is slow"
)

// StandsStill is the fault that makes holders write too late.
const StandsStill = "a worker stands still"

// LosesData is the fault after which the store may grant a lock that is held.
const LosesData = "the server loses its data"

// Killed is the fault that does not affect the locks of other processes.
const Killed = "a worker is killed"

// ServeIsCutOff is a fault of servers between processes and a store that the servers notice at
// once.
const ServeIsCutOff = "holdfast serve is cut off its store"

var faults = []fault{
	{name: Killed, run: func(c *campaign, lasts time.Duration) error {
		p := c.processes[c.rnd.IntN(len(c.processes))]
		if err := p.kill(); err != nil {
			return err
		}
		c.pause(lasts / 4)
		return c.start(p.place)
	}},
	{name: StandsStill, run: func(c *campaign, lasts time.Duration) error {
		p := c.processes[c.rnd.IntN(len(c.processes))]
		if err := p.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		c.pause(lasts)
		return p.signal(syscall.SIGCONT)
	}},
	{"a wall clock is moved", func(c *campaign) bool { return c.plan.Stepped }, func(c *campaign, lasts time.Duration) error {
		p, by := c.processes[c.rnd.IntN(len(c.processes))], time.Hour
		if c.rnd.IntN(2) == 0 {
			by = -by
		}
		if err := p.step(by); err != nil {
			return err
		}
		c.pause(lasts)
		if c.rnd.IntN(2) == 0 {
			return nil // leave it
		}
		return p.step(-by)
	}},
	{name: "there is little CPU time", run: starve},
	network("requests are cut", proxy.CutRequests),
	network("replies are cut", proxy.CutReplies),
	network("requests vanish", proxy.VanishRequests),
	network("replies vanish", proxy.VanishReplies),
	network("all vanishes", proxy.Silence),
	network(Breaks, proxy.Rarely(5)),
	{Slow, onNetwork, func(c *campaign, lasts time.Duration) error {
		// A reply may take longer than the margin of holders.
		c.disturb(proxy.Slow(time.Duration(c.rnd.Int64N(int64(c.plan.TTL/2)))), lasts)
		return nil
	}},
	partition(Partitions[0], true, false),
	partition(Partitions[1], false, true),
	partition(Partitions[2], true, true),
	{"no new connections", onNetwork, func(c *campaign, lasts time.Duration) error {
		some := c.randomPlaces()
		for _, i := range some {
			c.networks[i].Refuse()
		}
		c.pause(lasts)
		for _, i := range some {
			c.networks[i].Accept()
		}
		return nil
	}},
	{"holdfast serve is killed", isServed, (*campaign).killServe},
	{"holdfast serve stands still", isServed, (*campaign).freezeServe},
	{"holdfast serve is ended, and started again", isServed, (*campaign).endServe},
	behindServe(ServeIsCutOff, proxy.CutRequests, proxy.CutReplies),
	behindServe("what holdfast serve asks its store vanishes", proxy.VanishRequests, proxy.VanishReplies, proxy.Silence),
	{"the server is killed", by[restarter], func(c *campaign, _ time.Duration) (err error) {
		restart := func() { c.place.server.(restarter).Restart(c.t) }
		if c.rnd.IntN(2) == 0 {
			c.whileUnreachable(restart)
			return nil
		}
		var restarted sync.WaitGroup
		c.whileUnreachable(func() {
			restarted.Go(restart)
			err = c.listening() // the processes may reach the server while it recovers
		})
		restarted.Wait()
		return err
	}},
	{"the server stands still", by[freezer], func(c *campaign, lasts time.Duration) error {
		s := c.place.server.(freezer)
		s.Freeze(c.t)
		c.pause(lasts)
		s.Thaw(c.t)
		return nil
	}},
	{"a copy takes over", by[replicated], func(c *campaign, lasts time.Duration) error {
		s, from := c.place.server.(replicated), history.Now()
		s.FailOver(c.t)
		if c.place.forgets {
			c.losses = append(c.losses, history.Interval{From: from, To: history.Now()})
		}
		c.crashed(from)
		c.pause(lasts)
		s.Rejoin(c.t)
		return nil
	}},
	{"the disk is full", by[*disk], func(c *campaign, lasts time.Duration) error {
		d := c.place.server.(*disk)
		err := d.fill()
		c.pause(lasts)
		return errors.Join(err, d.free())
	}},
	{"the disk is read-only", by[*disk], readOnly},
	{LosesData, by[forgetful], func(c *campaign, _ time.Duration) error {
		from := history.Now()
		c.whileUnreachable(func() {
			c.place.server.(forgetful).Empty(c.t)
			if c.place.prepare != nil {
				c.place.prepare(c.t)
			}
		})
		c.losses = append(c.losses, history.Interval{From: from, To: c.away[len(c.away)-1].From})
		return nil
	}},
}

// listening waits until the server accepts connections.
func (c *campaign) listening() error {
	server, err := url.Parse(c.place.url)
	for limit := history.Now() + time.Minute; err == nil; {
		conn, refused := new(net.Dialer).DialContext(c.t.Context(), "tcp", server.Host)
		switch {
		case refused == nil:
			return conn.Close()
		case history.Now() > limit:
			err = refused
		}
		c.pause(c.plan.TTL / 100)
	}
	return err
}

// whileUnreachable calls do while no process can reach the server.
func (c *campaign) whileUnreachable(do func()) {
	for _, n := range c.networks {
		n.Refuse()
	}
	from := history.Now()
	c.place.server.(stopper).Stop() // with its open connections
	c.crashed(from)
	from = history.Now()
	do()
	if len(c.fronts) == 0 { // a server in between may still send an earlier request later
		c.away = append(c.away, history.Interval{From: from, To: history.Now()})
	}
	for _, n := range c.networks {
		n.Accept()
	}
}

// crashed records that the server has crashed since then.
func (c *campaign) crashed(from time.Duration) {
	if c.place.unqueues {
		c.crashes = append(c.crashes, history.Interval{From: from, To: history.Now()})
	}
}

func names() (all []string) {
	for _, f := range faults {
		all = append(all, f.name)
	}
	return all
}

// starve lets other processes use up the CPUs.
func starve(c *campaign, lasts time.Duration) (err error) {
	var others []*exec.Cmd
	for range 4 * runtime.NumCPU() {
		other := exec.CommandContext(c.t.Context(), "sh", "-c", "while :; do :; done")
		if err = other.Start(); err != nil {
			break
		}
		others = append(others, other)
	}
	c.pause(lasts)
	for _, other := range others {
		err = errors.Join(err, other.Process.Kill())
		_ = other.Wait() // killed
	}
	return err
}

// readOnly makes the disk read-only after killing all processes. A process that starts then
// must report why it cannot work.
func readOnly(c *campaign, _ time.Duration) error {
	for _, p := range c.processes {
		if err := p.kill(); err != nil {
			return err
		}
	}
	d := c.place.server.(*disk)
	if err := d.writable(false); err != nil {
		return err
	}
	p, err := c.launch(0, c.config(c.place.url))
	if err != nil {
		return err
	}
	p.killed = true // the disk ends it
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		err = errors.Join(errors.New("a process works on a disk that is read-only"), p.kill())
	}
	if said := p.said.String(); err == nil && (p.err == nil || !strings.Contains(said, "read-only")) {
		err = fmt.Errorf("on a disk that is read-only a process ended with %w: %s", p.err, said)
	}
	if err := d.writable(true); err != nil {
		return err
	}
	for i := range c.processes {
		err = errors.Join(err, c.start(i))
	}
	return err
}
