package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// together is how many keys share a run of the script at most. The server does nothing
// else meanwhile, for about half a millisecond as a rule.
const together = 100

// run is a run of the script.
type run struct {
	calls []*call
	cmd   *redis.Cmd
}

// exec performs the calls of a batch on one server, in one round trip as a rule, and
// asks others if it does not have the keys. No caller's context ends it: the time-outs
// of the client do.
func (s *Store) exec(ctx context.Context, client redis.UniversalClient, batch []*call) {
	runs := s.runs(batch)
	s.send(ctx, client, runs, "EVALSHA", scriptSHA)
	var again []*run // what did not run
	for _, r := range runs {
		switch err := r.cmd.Err(); {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			again = append(again, r)
		case redis.HasErrorPrefix(err, "CROSSSLOT") && len(r.calls) > 1: // a Cluster that passes for one server
			s.apart.Store(true)
			again = append(again, s.runs(r.calls)...)
		}
	}
	if len(again) > 0 {
		s.send(ctx, client, again, "EVAL", scriptText)
	}
	for _, c := range batch {
		if s.cluster != nil && redirected(c.err) {
			s.redirect(ctx, c)
		}
		c.finish()
	}
}

// runs divides calls. All calls of a key share a run, which reads and writes it once. In a
// Cluster each key has its own.
func (s *Store) runs(calls []*call) (all []*run) {
	apart := s.apart.Load()
	if apart || len(calls) > together {
		slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Compare(a.key, b.key) })
	}
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && (calls[n].key == calls[n-1].key || n < together && !apart) {
			n++
		}
		all = append(all, &run{calls: calls[:n]})
		calls = calls[n:]
	}
	return all
}

// send sends runs by one connection, and after them what waits for the replicas.
func (s *Store) send(ctx context.Context, client redis.UniversalClient, runs []*run, command, script string) {
	durable := false
	for _, r := range runs {
		r.cmd = s.command(ctx, r, command, script)
		durable = durable || s.o.Replicas > 0 && slices.ContainsFunc(r.calls, (*call).grants)
	}
	if len(runs) == 1 && !durable {
		client.Process(ctx, once{runs[0].cmd}) //nolint:errcheck // the command has it
		runs[0].settle()
		return
	}
	pipe := client.Pipeline()
	for _, r := range runs {
		pipe.Process(ctx, once{r.cmd}) //nolint:errcheck // nothing is sent yet
	}
	var wait *redis.Cmd
	if durable {
		wait = pipe.Do(ctx, "WAIT", s.o.Replicas, s.o.ReplicaTimeout.Milliseconds())
	}
	pipe.Exec(ctx) //nolint:errcheck // the commands have it
	for _, r := range runs {
		r.settle()
	}
	if wait == nil {
		return
	}
	got, err := wait.Int64()
	if err == nil && got < int64(s.o.Replicas) {
		err = fmt.Errorf("%d of %d replicas have it after %v", got, s.o.Replicas, s.o.ReplicaTimeout)
	}
	for _, r := range runs {
		for _, c := range r.calls {
			if c.granted() {
				c.err = err
			}
		}
	}
}

// grants reports whether the call acquires or renews: replicas are waited for, if any are.
func (c *call) grants() bool { return c.arguments[0] == acquire || c.arguments[0] == renew }

// granted reports whether the call did what must be on the replicas. A refusal, or that
// a hold is lost, is true without them. A record in the reply of an acquire is a refusal,
// unless it says that the hold of a repeat was written again.
func (c *call) granted() bool {
	record, refused := c.reply.([]any)
	return c.err == nil && c.grants() && c.reply != int64(0) && (!refused || len(record) == 4)
}

// command runs the script by its name, or by its text.
func (s *Store) command(ctx context.Context, r *run, command, script string) *redis.Cmd {
	args := make([]any, 0, 4+2*len(r.calls))
	args = append(args, command, script, len(r.calls))
	for _, c := range r.calls {
		args = append(args, c.key)
	}
	args = append(args, append(appendDigits(nil, 16, s.o.Retention.Microseconds()), s.publish()...))
	for _, c := range r.calls {
		args = append(args, c.arguments)
	}
	return redis.NewCmd(ctx, args...)
}

// once is a command that go-redis does not send again when a connection breaks. The
// second one could follow the clean-up of a caller that has gone, find that what the
// first one renewed has ended, or meet another hold where none is named. The Client
// knows what it asked for, and repeats it.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// settle gives each call its reply. A text is an error.
func (r *run) settle() {
	reply, err := r.cmd.Result()
	replies := []any{reply}
	if len(r.calls) > 1 && err == nil {
		replies, _ = reply.([]any)
		if len(replies) != len(r.calls) {
			err = fmt.Errorf("a script for %d keys had %d replies", len(r.calls), len(replies))
		}
	}
	for i, c := range r.calls {
		if c.err = err; err != nil {
			continue
		}
		c.reply = replies[i]
		if failed, ok := c.reply.(string); ok {
			c.err = errors.New(failed)
		}
	}
}

func redirected(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// redirect asks the server that has the key now: its slot has moved, or is about
// to. The first one did not run the script.
func (s *Store) redirect(ctx context.Context, c *call) {
	s.cluster.ReloadState(ctx)
	r := &run{calls: []*call{c}}
	r.cmd = s.command(ctx, r, "EVAL", scriptText)
	s.cluster.Process(ctx, once{r.cmd}) //nolint:errcheck // the command has it
	r.settle()
	if s.o.Replicas > 0 && c.granted() {
		c.err = errors.New("slot moved: replicas were not waited for")
	}
}
