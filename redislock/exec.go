package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// maxKeys is the largest number of keys in a run of the script. A run of that size takes
// about half a millisecond, during which the server does nothing else.
const maxKeys = 100

// run is one execution of the script.
type run struct {
	calls []*call
	cmd   *redis.Cmd
}

// exec performs the calls of a batch on one server, usually in one round trip, and on
// other servers for keys that have moved there. Only the time-outs of the client end it,
// not the contexts of the callers.
func (s *Store) exec(ctx context.Context, client redis.UniversalClient, batch []*call) {
	runs := s.runs(batch)
	s.send(ctx, client, runs, "EVALSHA", scriptSHA())
	var again []*run // runs that the server did not execute
	for _, r := range runs {
		switch err := r.cmd.Err(); {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			again = append(again, r)
		case redis.HasErrorPrefix(err, "CROSSSLOT") && len(r.calls) > 1: // a Cluster behind the address of one server
			s.perKey.Store(true)
			again = append(again, s.runs(r.calls)...)
		}
	}
	if len(again) > 0 {
		s.send(ctx, client, again, "EVAL", scriptText())
	}
	for _, c := range batch {
		if s.cluster != nil && (redis.HasErrorPrefix(c.err, "MOVED") || redis.HasErrorPrefix(c.err, "ASK")) {
			s.redirect(ctx, c)
		}
		c.finish()
	}
}

// runs divides calls into runs. All calls for a key share a run, which reads and writes
// the key once. In a Cluster each key has a run of its own.
func (s *Store) runs(calls []*call) (all []*run) {
	perKey := s.perKey.Load()
	if perKey || len(calls) > maxKeys {
		slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Compare(a.key, b.key) })
	}
	for len(calls) > 0 {
		n := 1
		for n < len(calls) && (calls[n].key == calls[n-1].key || n < maxKeys && !perKey) {
			n++
		}
		all = append(all, &run{calls: calls[:n]})
		calls = calls[n:]
	}
	return all
}

// send sends the runs on one connection. If Options.Replicas is set and a run may grant
// or renew a hold, it also sends WAIT, and sets the error of such calls unless enough
// replicas confirm.
func (s *Store) send(ctx context.Context, client redis.UniversalClient, runs []*run, command, script string) {
	waitReplicas := false
	for _, r := range runs {
		r.cmd = s.command(ctx, r, command, script)
		waitReplicas = waitReplicas || s.o.Replicas > 0 && slices.ContainsFunc(r.calls, (*call).grants)
	}
	if len(runs) == 1 && !waitReplicas {
		client.Process(ctx, noRetry{runs[0].cmd}) //nolint:errcheck // the command has the error
		runs[0].settle()
		return
	}
	pipe := client.Pipeline()
	for _, r := range runs {
		pipe.Process(ctx, noRetry{r.cmd}) //nolint:errcheck // nothing is sent yet
	}
	var wait *redis.Cmd
	if waitReplicas {
		wait = pipe.Do(ctx, "WAIT", s.o.Replicas, s.o.ReplicaTimeout.Milliseconds())
	}
	pipe.Exec(ctx) //nolint:errcheck // the commands have the error
	for _, r := range runs {
		r.settle()
	}
	if wait == nil {
		return
	}
	got, err := wait.Int64()
	err = foreign.Error(context.Background(), err)
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

// grants reports whether the call is an acquire or a renewal, which may have to wait for
// replicas.
func (c *call) grants() bool {
	return c.request[0] == acquire || c.request[0] == enqueue || c.request[0] == renew
}

// granted reports whether the call granted or renewed a hold, which must be on the
// replicas. Refusals, losses and places in the queue need not be there. A record as the
// reply to an acquire is a refusal, unless it says that a repeat wrote its hold again.
func (c *call) granted() bool {
	if c.err != nil || !c.grants() || c.reply == int64(0) {
		return false
	}
	record, ok := c.reply.([]any)
	return !ok || c.request[0] == renew || len(record) == 4
}

// command returns the command that runs the script, called by name or sent as text.
func (s *Store) command(ctx context.Context, r *run, command, script string) *redis.Cmd {
	args := make([]any, 0, 4+2*len(r.calls))
	args = append(args, command, script, len(r.calls))
	for _, c := range r.calls {
		args = append(args, c.key)
	}
	args = append(args, append(appendDigits(nil, 16, s.o.KeyRetention.Microseconds()), s.publish()...))
	for _, c := range r.calls {
		args = append(args, c.request)
	}
	return redis.NewCmd(ctx, args...)
}

// noRetry is a command that go-redis does not send again when a connection breaks. A second
// request could arrive after the clean-up of a caller that has left. It could find that
// the hold that the first one renewed has ended, or, without a hold ID, change another
// hold. The Client repeats its requests itself.
type noRetry struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (noRetry) NoRetry() bool { return true }

// settle gives each call its reply. A text in place of a reply is an error.
func (r *run) settle() {
	reply, err := r.cmd.Result()
	err = foreign.Error(context.Background(), err) // no caller's ctx ends a run
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

// redirect performs the call on the server that has the key now: the slot has moved or is
// moving. The first server did not run the script.
func (s *Store) redirect(ctx context.Context, c *call) {
	s.cluster.ReloadState(ctx)
	r := &run{calls: []*call{c}}
	r.cmd = s.command(ctx, r, "EVAL", scriptText())
	s.cluster.Process(ctx, noRetry{r.cmd}) //nolint:errcheck // the command has the error
	r.settle()
	if s.o.Replicas > 0 && c.granted() {
		c.err = errors.New("slot moved: replicas were not waited for")
	}
}
