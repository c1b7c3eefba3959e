//go:build unix

package sqlitelock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// pointAny means a kill at a random moment.
const pointAny sqlitelock.Point = "at any moment"

// want is the state of a resource that only one process uses: the hold and its TTL. The
// zero value is no hold. TTLs are whole hours, so a status shows the TTL.
type want struct {
	Hold  string `json:"hold,omitempty"`
	Hours int    `json:"hours,omitempty"`
}

// line is what a crashing process prints, in JSON, before and after its actions.
type line struct {
	// Do are the states that the next change should bring about, in one transaction.
	Do map[string]want `json:"do,omitempty"`
	// Done means that the store has answered.
	Done bool `json:"done,omitempty"`
	// Kill is the point at which the process is about to kill itself.
	Kill sqlitelock.Point `json:"kill,omitempty"`
}

// crasher changes a file until it kills itself.
type crasher struct {
	ctx   context.Context
	out   *json.Encoder
	path  string
	name  string // unique to this process
	point sqlitelock.Point
	after int // how often the point is reached before the kill
	s     driver.Store

	own  []owned
	made int // the number of resource names used

	speaking sync.Mutex
}

// owned is a hold of the process.
type owned struct {
	ref   driver.HoldRef
	hours int
}

func init() { children["crash"] = childCrash }

// childCrash has the arguments path, name, point, and how often the point is reached
// before the kill. For a checkpoint, once is enough.
func childCrash(args []string, _ *bufio.Scanner, out io.Writer) error {
	after, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	c := &crasher{
		ctx: context.Background(), out: json.NewEncoder(out),
		path: args[0], name: args[1], point: sqlitelock.Point(args[2]), after: after,
	}
	if c.point == pointAny {
		time.AfterFunc(rand.N(time.Duration(after)*time.Millisecond), c.kill)
	}
	if c.s, err = sqlitelock.OpenOn(c.ctx, c.path, nil, sqlitelock.Machine{At: c.at}); err != nil {
		return err
	}
	for {
		if err := c.change(); err != nil {
			return err
		}
	}
}

// at is called at each point.
func (c *crasher) at(p sqlitelock.Point) {
	switch {
	case p != c.point:
	case p == sqlitelock.PointPassive, p == sqlitelock.PointRestart:
		time.AfterFunc(rand.N(time.Millisecond), c.kill) // while SQLite moves the log
	default:
		if c.after--; c.after == 0 {
			c.kill()
		}
	}
}

// kill does not return.
func (c *crasher) kill() {
	c.say(line{Kill: c.point})
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (c *crasher) say(l line) {
	c.speaking.Lock()
	defer c.speaking.Unlock()
	if err := c.out.Encode(l); err != nil {
		panic(err) // the test has ended
	}
}

// do prints the planned states of own resources, lets f change them, and prints that it
// is done.
func (c *crasher) do(states map[string]want, f func() error) error {
	c.say(line{Do: states})
	if err := f(); err != nil {
		return err
	}
	c.say(line{Done: true})
	return nil
}

// change makes one change of a random kind.
func (c *crasher) change() error {
	switch n := rand.N(8); {
	case len(c.own) < 2 || n < 2 && len(c.own) < 8:
		return c.acquire()
	case n < 4:
		return c.renew(c.own[:1])
	case n < 6:
		return c.renew(c.own)
	case n < 7:
		return c.release(1)
	default:
		return c.release(2)
	}
}

func (c *crasher) acquire() error {
	c.made++
	q := request(fmt.Sprintf("%s-%d", c.name, c.made), c.name, time.Hour)
	return c.do(map[string]want{q.Resource: {q.HoldID.String(), 1}}, func() error {
		ref, err := acquire(c.ctx, c.s, q)
		c.own = append(c.own, owned{ref, 1})
		return err
	})
}

func (c *crasher) renew(holds []owned) error {
	states := make(map[string]want)
	var rs []driver.RenewRequest
	for i := range holds {
		h := &holds[i]
		h.hours++
		states[h.ref.Resource] = want{h.ref.HoldID.String(), h.hours}
		rs = append(rs, driver.RenewRequest{HoldRef: h.ref, TTL: time.Duration(h.hours) * time.Hour})
	}
	return c.do(states, func() error {
		results, err := c.s.Renew(c.ctx, rs)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}

func (c *crasher) release(n int) error {
	states := make(map[string]want)
	var rs []driver.ReleaseRequest
	for _, h := range c.own[:n] {
		states[h.ref.Resource] = want{}
		rs = append(rs, driver.ReleaseRequest{HoldRef: h.ref})
	}
	c.own = c.own[n:]
	return c.do(states, func() error {
		results, err := c.s.Release(c.ctx, rs)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}
