//go:build unix

package guard

import (
	"encoding/json"
	"sync"
)

// outbox sends messages in their order. Nobody waits for the other end to read them: it may
// be stopped, and no deadline waits for it.
type outbox[T any] struct {
	to *json.Encoder

	mu     sync.Mutex
	unsent []T
	idle   chan struct{} // closed when all is sent; nil: nothing was
}

func (b *outbox[T]) send(message T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unsent = append(b.unsent, message)
	if len(b.unsent) == 1 {
		b.idle = make(chan struct{})
		go b.empty(b.idle)
	}
}

// empty takes a message out once it is sent, so that send starts no other goroutine.
func (b *outbox[T]) empty(idle chan<- struct{}) {
	defer close(idle)
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.unsent) > 0 {
		message := b.unsent[0]
		b.mu.Unlock()
		_ = b.to.Encode(message) // fails only if the other end is gone, which its owner notices
		b.mu.Lock()
		b.unsent = b.unsent[1:]
	}
}

// sent returns a channel that closes when all messages are sent. At least one must have
// been given to send.
func (b *outbox[T]) sent() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}
