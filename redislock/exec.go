package redislock

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// exec has a server run the scripts of a batch, in one round trip as a rule, and
// asks others if it does not have the keys. No caller's context ends it: the time-outs
// of the client do.
func (s *Store) exec(ctx context.Context, client redis.UniversalClient, batch []*call) {
	s.run(ctx, client, batch)
	for _, c := range batch {
		if s.cluster != nil && redirected(c.err) {
			s.redirect(ctx, c)
		}
		c.finish()
	}
}

// run asks one server.
func (s *Store) run(ctx context.Context, client redis.UniversalClient, batch []*call) {
	packets := s.packed(batch)
	for _, p := range packets {
		p.evalSHA(ctx)
	}
	s.send(ctx, client, packets)
	var again []*packet // what did not run
	for _, p := range packets {
		switch err := p.cmd.Err(); {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			again = append(again, p)
		case redis.HasErrorPrefix(err, "CROSSSLOT") && len(p.calls) > 1: // a Cluster that passes for one server
			s.apart.Store(true)
			again = append(again, s.packed(p.calls)...)
		}
	}
	if len(again) == 0 {
		return
	}
	for _, p := range again {
		p.eval(ctx)
	}
	s.send(ctx, client, again)
}

// send sends commands, on one connection, and after them what waits for the replicas.
func (s *Store) send(ctx context.Context, client redis.UniversalClient, packets []*packet) {
	durable := false
	for _, p := range packets {
		durable = durable || s.o.Replicas > 0 && p.calls[0].written != nil
	}
	if len(packets) == 1 && !durable {
		client.Process(ctx, packets[0].sent()) //nolint:errcheck // the command has it
		packets[0].settle()
		return
	}
	pipe := client.Pipeline()
	for _, p := range packets {
		pipe.Process(ctx, p.sent()) //nolint:errcheck // nothing is sent yet
	}
	var wait *redis.Cmd
	if durable {
		wait = pipe.Do(ctx, "WAIT", s.o.Replicas, s.o.ReplicaTimeout.Milliseconds())
	}
	pipe.Exec(ctx) //nolint:errcheck // the commands have it
	for _, p := range packets {
		p.settle()
	}
	if wait == nil {
		return
	}
	got, err := wait.Int64()
	if err == nil && got < int64(s.o.Replicas) {
		err = fmt.Errorf("%d of %d replicas have it after %v", got, s.o.Replicas, s.o.ReplicaTimeout)
	}
	for _, p := range packets {
		for _, c := range p.calls {
			if c.changed() {
				c.err = err
			}
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
	p := &packet{calls: []*call{c}}
	p.eval(ctx)
	s.cluster.Process(ctx, p.sent()) //nolint:errcheck // the command has it
	p.settle()
	if s.o.Replicas > 0 && c.changed() {
		c.err = fmt.Errorf("slot moved: replicas were not waited for")
	}
}
