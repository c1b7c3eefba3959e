package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// toxicType is the only toxic in use. Toxiproxy's own are put in and taken out
// while data flow, and leave goroutines behind when a connection ends meanwhile.
// This one stays, and looks up what to do.
const toxicType = "holdfast"

func init() { toxics.Register(toxicType, new(toxic)) }

// toxic is made by toxiproxy, of its attributes in JSON.
type toxic struct {
	Network int64 `json:"network"`
	Replies bool  `json:"replies"` // to the client, else to the server
}

// GetBufferSize implements toxics.BufferedToxic: as many pieces can be delayed at
// the same time.
func (x *toxic) GetBufferSize() int { return 64 }

var (
	networks sync.Map // of *Network, by its id
	lastID   atomic.Int64
)

func (n *Network) register()   { n.id = lastID.Add(1); networks.Store(n.id, n) }
func (n *Network) unregister() { networks.Delete(n.id) }

// Pipe implements toxics.Toxic for one direction of one connection.
func (x *toxic) Pipe(stub *toxics.ToxicStub) {
	found, ok := networks.Load(x.Network)
	if !ok || !found.(*Network).enter() { // the test is over
		end(stub)
		return
	}
	n := found.(*Network)
	defer n.leave()
	lost := false
	changed, cuts := n.state()
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
			case !n.pass(stub, piece, f.Delay):
				end(stub)
				return
			}
		case <-changed:
			before := cuts
			changed, cuts = n.state()
			if lost || cuts != before {
				end(stub)
				return
			}
		case <-n.over:
			end(stub)
			return
		}
	}
}

// pass sends the piece on, that long after it came, unless the test ends.
func (n *Network) pass(stub *toxics.ToxicStub, piece *stream.StreamChunk, delay time.Duration) bool {
	if delay > 0 {
		t := time.NewTimer(delay - time.Since(piece.Timestamp))
		defer t.Stop()
		select {
		case <-t.C:
		case <-n.over:
			return false
		}
	}
	select {
	case stub.Output <- piece:
		return true
	case <-n.over:
		return false
	}
}

// end ends this direction, upon which toxiproxy closes the connection, and lets
// nobody wait who still has something to send.
func end(stub *toxics.ToxicStub) {
	stub.Close()
	for range stub.Input {
	}
}
