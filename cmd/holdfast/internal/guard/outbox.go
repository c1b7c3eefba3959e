//go:build unix

package guard

import (
	"encoding/json"
	"sync"
)

// outbox sends reports in their order. Nobody waits for the program to read them: it may be
// stopped, and the deadline does not wait for it.
type outbox struct {
	to *json.Encoder

	mu     sync.Mutex
	unsent []report
	busy   bool // a goroutine sends
}

func (b *outbox) send(r report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsent = append(b.unsent, r)
	if !b.busy {
		b.busy = true
		go b.empty()
	}
}

func (b *outbox) empty() {
	for {
		b.mu.Lock()
		if len(b.unsent) == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		r := b.unsent[0]
		b.unsent = b.unsent[1:]
		b.mu.Unlock()
		_ = b.to.Encode(r) // fails only if the program is gone, which also closes orders
	}
}
