package redislock

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// exec has a server run the scripts of a batch, in one round trip as a rule, and
// asks others if it does not have the keys. It is not bound to any caller's context:
// the time-outs of the client end it.
func (s *Store) exec(ctx context.Context, client redis.UniversalClient, batch []*call) {
	s.run(ctx, client, batch)
	for _, c := range batch {
		if s.cluster != nil && redirected(c.cmd.Err()) {
			s.redirect(ctx, c)
		}
		close(c.done)
	}
}

// run asks one server.
func (s *Store) run(ctx context.Context, client redis.UniversalClient, batch []*call) {
	s.send(ctx, client, batch, (*call).evalSHA)
	var unknown []*call
	for _, c := range batch {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, c) // it did not run
		}
	}
	if len(unknown) > 0 {
		s.send(ctx, client, unknown, (*call).eval)
	}
}

func (c *call) evalSHA(ctx context.Context) *redis.Cmd {
	return c.command(ctx, "EVALSHA", c.script.sha)
}
func (c *call) eval(ctx context.Context) *redis.Cmd { return c.command(ctx, "EVAL", c.script.text) }

// sent is what go-redis is given. It sends a command again if a connection breaks,
// and all others of the pipeline with it, unless one of them must not be.
func (c *call) sent() redis.Cmder {
	if c.once {
		return once{c.cmd}
	}
	return c.cmd
}

// once is a command that is sent at most once.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func (c *call) command(ctx context.Context, name, script string) *redis.Cmd {
	args := make([]any, 0, 4+len(c.args))
	cmd := redis.NewCmd(ctx, append(append(args, name, script, 1, c.key), c.args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// send sends each call as a command, on one connection, and after them what waits
// for the replicas.
func (s *Store) send(ctx context.Context, client redis.UniversalClient, batch []*call, as func(*call, context.Context) *redis.Cmd) {
	durable := false
	for _, c := range batch {
		c.cmd = as(c, ctx)
		durable = durable || c.durable && s.o.Replicas > 0
	}
	if len(batch) == 1 && !durable {
		client.Process(ctx, batch[0].sent()) //nolint:errcheck // the command has it
		return
	}
	pipe := client.Pipeline()
	for _, c := range batch {
		pipe.Process(ctx, c.sent()) //nolint:errcheck // nothing is sent yet
	}
	var wait *redis.Cmd
	if durable {
		wait = pipe.Do(ctx, "WAIT", s.o.Replicas, s.o.ReplicaTimeout.Milliseconds())
	}
	pipe.Exec(ctx) //nolint:errcheck // the commands have it
	if wait == nil {
		return
	}
	got, err := wait.Int64()
	if err == nil && got < int64(s.o.Replicas) {
		err = fmt.Errorf("%d of %d replicas have it after %v", got, s.o.Replicas, s.o.ReplicaTimeout)
	}
	for _, c := range batch {
		if c.durable {
			c.err = err
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
	c.cmd = c.eval(ctx)
	s.cluster.Process(ctx, c.sent()) //nolint:errcheck // the command has it
	if c.durable && s.o.Replicas > 0 {
		c.err = fmt.Errorf("slot moved: replicas were not waited for")
	}
}
