package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// toxicType is the only toxic in use. Toxiproxy's own toxics are added and removed while data
// flow, and leave goroutines behind if a connection ends at that time. This one stays, and
// looks up the current fault.
const toxicType = "holdfast"

func init() { toxics.Register(toxicType, new(toxic)) }

// toxic is created by toxiproxy from its attributes in JSON.
type toxic struct {
	Network int64  `json:"network"`
	Server  string `json:"server"`
	Replies bool   `json:"replies"` // to the client, otherwise to the server
}

// connection is the shared state of its two directions. Data in one direction may wait for a
// reader that is gone, which toxiproxy does not report: when the other direction has ended,
// this one ends too.
type connection struct {
	gone chan struct{} // closed when it has ended
	once sync.Once
}

func (c *connection) end() { c.once.Do(func() { close(c.gone) }) }

// NewState implements toxics.StatefulToxic. Toxiproxy calls it for the requests of a connection
// and then for its replies, before the proxy accepts another connection.
func (x *toxic) NewState() any {
	found, ok := networks.Load(x.Network)
	if !ok {
		return nil
	}
	n := found.(*Network)
	if !x.Replies {
		n.newest.Store(x.Server, &connection{gone: make(chan struct{})})
	}
	c, _ := n.newest.Load(x.Server)
	return c
}

// GetBufferSize implements toxics.BufferedToxic. It is the number of pieces that can be delayed
// at the same time.
func (x *toxic) GetBufferSize() int { return 64 }

var (
	networks sync.Map // of *Network, by its id
	lastID   atomic.Int64
)

func (n *Network) register()   { n.id = lastID.Add(1); networks.Store(n.id, n) }
func (n *Network) unregister() { networks.Delete(n.id) }

// Pipe implements toxics.Toxic for one direction of one connection.
func (x *toxic) Pipe(stub *toxics.ToxicStub) {
	c, _ := stub.State.(*connection)
	found, ok := networks.Load(x.Network)
	if c == nil || !ok || !found.(*Network).enter(c) { // the test has ended
		end(stub)
		return
	}
	n := found.(*Network)
	defer n.leave(c)
	defer c.end()
	lost := false
	changed := n.changes()
	for {
		select {
		case piece := <-stub.Input:
			if piece == nil {
				stub.Close()
				return
			}
			switch effect, f := n.fate(x.Replies); {
			case effect == Cut:
				end(stub)
				return
			case effect == Vanish || lost:
				lost = true
			case !c.pass(stub, piece, f.Delay):
				end(stub)
				return
			}
		case <-changed:
			if lost {
				end(stub)
				return
			}
			changed = n.changes()
		case <-c.gone:
			end(stub)
			return
		}
	}
}

// pass forwards the piece after the delay, unless the connection ends before.
func (c *connection) pass(stub *toxics.ToxicStub, piece *stream.StreamChunk, delay time.Duration) bool {
	if delay > 0 {
		t := time.NewTimer(delay - time.Since(piece.Timestamp))
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.gone:
			return false
		}
	}
	select {
	case stub.Output <- piece:
		return true
	case <-c.gone:
		return false
	}
}

// end ends this direction, so that toxiproxy closes the connection, and releases a sender that
// still has data.
func end(stub *toxics.ToxicStub) {
	stub.Close()
	for range stub.Input {
	}
}
