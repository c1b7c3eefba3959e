package redislock

import (
	_ "embed"
	"encoding/hex"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

var (
	//go:embed key.lua
	keyLua string
	//go:embed grant.lua
	grantLua string
	//go:embed free.lua
	freeLua string
	//go:embed record.lua
	recordLua string
	//go:embed find.lua
	findLua string
	//go:embed acquire.lua
	acquireLua string
	//go:embed renew.lua
	renewLua string
	//go:embed release.lua
	releaseLua string
	//go:embed look.lua
	lookLua string
	//go:embed sweep.lua
	sweepLua string
)

// The scripts: one for each operation, on one key. What is usual comes first.
var (
	acquire = newScript(keyLua + grantLua + recordLua + acquireLua)
	renew   = newScript(keyLua + recordLua + findLua + renewLua)
	release = newScript(keyLua + freeLua + recordLua + findLua + releaseLua)
	look    = newScript(keyLua + recordLua + lookLua)
	sweep   = newScript(keyLua + recordLua + sweepLua)
)

type script struct{ text, sha string }

func newScript(text string) *script {
	return &script{text: text, sha: redis.NewScript(text).Hash()}
}

// never is a TTL or an end in a script that is none.
const never = 1 << 53

func micros(d time.Duration) int64 {
	if d == driver.Forever {
		return never
	}
	return d.Microseconds()
}

// ids are how a script has a hold ID, zeros for none, and a lock ID.
func ids(ref *driver.HoldRef) string {
	text := make([]byte, 0, 2*len(ref.HoldID)+4+len(ref.LockID))
	text = hex.AppendEncode(text, ref.HoldID[:])
	return string(appendSized(text, ref.LockID))
}

// appendSized appends a text after its length.
func appendSized(to []byte, text string) []byte {
	return append(appendDigits(to, 4, uint64(len(text))), text...)
}

// appendDigits appends a number of so many digits.
func appendDigits(to []byte, digits int, n uint64) []byte {
	to = append(to, "0000000000000000"[:digits]...)
	for at := len(to) - 1; n > 0; at, n = at-1, n/10 {
		to[at] = '0' + byte(n%10)
	}
	return to
}

// flag is how a script has it.
func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// publish is the command by which scripts tell who waits.
func (s *Store) publish() string {
	if s.sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// sharded: channels belong to the nodes that have their keys.
func (s *Store) sharded() bool { return s.cluster != nil && !s.global.Load() }
