package redislock

import (
	_ "embed"
	"encoding/hex"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	//go:embed fast.lua
	fastLua string
	//go:embed record.lua
	recordLua string
	//go:embed queue.lua
	queueLua string
	//go:embed acquire.lua
	acquireLua string
	//go:embed holds.lua
	holdsLua string
	//go:embed run.lua
	runLua string
)

// One script has all operations, so one run can perform any of them.
var (
	scriptText = sync.OnceValue(func() string {
		return fastLua + recordLua + queueLua + acquireLua + holdsLua + runLua
	})
	scriptSHA = sync.OnceValue(func() string { return redis.NewScript(scriptText()).Hash() })
)

// never stands for no TTL and for no end in the script.
const never = 1 << 53

func micros(d time.Duration) int64 {
	if d == driver.Forever {
		return never
	}
	return d.Microseconds()
}

// The operations. record.lua describes them.
const (
	acquire = 'A'
	enqueue = 'Q' // an acquire that takes a place if it is refused
	look    = 'L'
	renew   = 'N'
	release = 'R'
	sweep   = 'S'
)

// slack is how much later than necessary a key expires, so that later writes can leave
// the expiry as it is.
func (o *Options) slack() time.Duration { return max(o.KeyRetention/32, time.Minute) }

// acquireRequest returns the request of an acquire.
func (s *Store) acquireRequest(q *driver.AcquireRequest) []byte {
	queued := !q.Place.IsZero()
	size := 5*16 + 2 + 2*len(q.HoldID) + 4*4 + len(q.LockID) + len(q.Details.Owner) + len(q.Details.Host) + len(q.Details.Comment)
	letter := byte(acquire)
	if queued {
		letter = enqueue
		size += 2*16 + 1 + 2*len(q.Place)
	}
	b := s.appendNeed(append(make([]byte, 0, size), letter), q)
	b = appendDigits(b, 16, int64(q.Limit))
	if queued {
		b = appendDigits(b, 16, micros(q.PlaceTTL()))
		b = appendDigits(b, 8, int64(len(driver.CutPlaceName(q.Details.Owner))))
		b = appendDigits(b, 8, int64(len(driver.CutPlaceName(q.Details.Host))))
		b = appendFlag(b, q.Fair)
		b = hex.AppendEncode(b, q.Place[:])
	}
	b = hex.AppendEncode(b, q.HoldID[:])
	b = appendSized(b, q.LockID)
	b = appendDigits(b, 1, int64(q.Mode))
	b = appendDigits(b, 16, micros(q.TTL))
	b = appendDigits(b, 16, micros(q.TakeoverDelay))
	for _, detail := range [...]string{q.Details.Owner, q.Details.Host, q.Details.Comment} {
		b = appendSized(b, detail)
	}
	return b
}

// appendNeed appends how long the key must stay, and how long a new key stays, if the
// hold can be the only one in a fresh key.
func (s *Store) appendNeed(b []byte, q *driver.AcquireRequest) []byte {
	var need, expiry int64
	if slack := s.o.slack(); q.Mode == driver.Exclusive && q.TTL <= slack && q.TakeoverDelay <= slack-q.TTL {
		stays := q.TTL + q.TakeoverDelay + s.o.KeyRetention
		need, expiry = stays.Microseconds(), (stays + slack).Milliseconds()
	}
	return appendDigits(appendDigits(b, 16, need), 16, expiry)
}

// refRequest returns the request of an operation on the hold that matches ref.
func refRequest(operation byte, d time.Duration, ref *driver.HoldRef) []byte {
	b := append(make([]byte, 0, 1+2*16+2*len(ref.HoldID)+4+len(ref.LockID)), operation)
	b = appendDigits(appendDigits(b, 16, micros(d)), 16, int64(ref.Token))
	b = hex.AppendEncode(b, ref.HoldID[:])
	return appendSized(b, ref.LockID)
}

func appendFlag(to []byte, set bool) []byte {
	if set {
		return append(to, '1')
	}
	return append(to, '0')
}

// appendSized appends a text after its length.
func appendSized(to []byte, text string) []byte {
	return append(appendDigits(to, 4, int64(len(text))), text...)
}

// appendDigits appends n in the given number of digits.
func appendDigits(to []byte, digits int, n int64) []byte {
	to = append(to, "0000000000000000"[:digits]...)
	for at := len(to) - 1; n > 0; at, n = at-1, n/10 {
		to[at] = '0' + byte(n%10)
	}
	return to
}
