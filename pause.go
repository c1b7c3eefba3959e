package holdfast

import (
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles up to a limit, spread by half in both
// directions so that clients that were refused together do not return together.
type backoff struct {
	next, limit time.Duration
}

func (b *backoff) pause() time.Duration {
	p := b.next
	b.next = min(2*b.next, b.limit)
	return p/2 + rand.N(p)
}

// How long to wait before asking again.
const (
	// pollFirst and pollLimit: a resource that is held, where the store sends no
	// signal.
	pollFirst = 10 * time.Millisecond
	pollLimit = 500 * time.Millisecond
	// watchFirst and watchLimit: the same where it does, in case that a signal is
	// missed. A holder that dies is not such a case: its end is known.
	watchFirst = 5 * time.Second
	watchLimit = 10 * time.Second
	// subscribeTimeout: how long a store may take to subscribe.
	subscribeTimeout = 2 * time.Second
	// retryFirst and retryLimit: a request without an answer.
	retryFirst = 10 * time.Millisecond
	retryLimit = time.Second
)

func retries() backoff { return backoff{retryFirst, retryLimit} }

// step: a Client asks in vain, for what it is told of anyway, only at moments that
// are so far apart. To wake up costs many times what asking costs, and so all that
// is due by then shares it.
const step = time.Second

// inStep returns the pause made so much longer that it ends at such a moment. The
// moments count from when the Client was made: others have others.
func (c *Client) inStep(pause time.Duration) time.Duration {
	now := c.clock()
	return (now + pause).Truncate(step) + step - now
}
