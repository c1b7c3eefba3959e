package redislock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// together is how many keys share a run of a script at most. The server does nothing
// else meanwhile, for about half a millisecond as a rule.
const together = 100

// packet is a command: what one run of a script does for some calls.
type packet struct {
	calls []*call
	cmd   *redis.Cmd
}

// packed puts calls of the same script and terms into packets. In a Cluster each key
// has its own.
func (s *Store) packed(calls []*call) []*packet {
	var packets []*packet
	apart := s.apart.Load()
	byKey := make(map[string]int) // where the calls of a key are, if they are apart
	for _, c := range calls {
		to := 0
		if at, there := byKey[c.key]; there {
			to = at
		} else if apart {
			to = len(packets)
		}
		for to < len(packets) && !packets[to].takes(c, apart) {
			to++
		}
		if to == len(packets) {
			packets = append(packets, &packet{})
		}
		if apart {
			byKey[c.key] = to
		}
		packets[to].calls = append(packets[to].calls, c)
	}
	return packets
}

// takes reports whether a call can be added. What is asked about one key is read and
// written once, so that more of it costs little.
func (p *packet) takes(c *call, apart bool) bool {
	first, last := p.calls[0], p.calls[len(p.calls)-1]
	return first.script == c.script && first.terms == c.terms && (last.key == c.key || !apart && len(p.calls) < together)
}

// prepare makes the command. The script is told by its name, or by its text.
func (p *packet) prepare(ctx context.Context, name, script string) {
	args := make([]any, 0, 4+2*len(p.calls))
	args = append(args, name, script, len(p.calls))
	for _, c := range p.calls {
		args = append(args, c.key)
	}
	args = append(args, p.calls[0].terms.text())
	for _, c := range p.calls {
		args = append(args, c.item)
	}
	p.cmd = redis.NewCmd(ctx, args...)
	p.cmd.SetFirstKeyPos(3)
}

func (p *packet) evalSHA(ctx context.Context) { p.prepare(ctx, "EVALSHA", p.calls[0].script.sha) }
func (p *packet) eval(ctx context.Context)    { p.prepare(ctx, "EVAL", p.calls[0].script.text) }

// sent is what go-redis is given.
func (p *packet) sent() redis.Cmder { return once{p.cmd} }

// once is a command that go-redis does not send again when a connection breaks. The
// second one could follow the clean-up of a caller who has gone, find that what the
// first one renewed has ended, or meet another hold where none is named. The Client
// knows what it asked for, and repeats it.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// settle gives each call its reply.
func (p *packet) settle() {
	all, err := p.cmd.Result()
	replies, several := all.([]any)
	if err == nil && several && len(replies) != len(p.calls) {
		err = fmt.Errorf("a script for %d keys had %d replies", len(p.calls), len(replies))
	}
	for i, c := range p.calls {
		c.reply, c.err = all, err
		if err == nil && several {
			c.reply = replies[i]
			if failed, ok := c.reply.(string); ok {
				c.err = errors.New(failed)
			}
		}
	}
}
