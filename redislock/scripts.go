package redislock

import (
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

var (
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

// The scripts: one for each operation, on one key.
var (
	acquire = newScript(recordLua + acquireLua)
	renew   = newScript(recordLua + findLua + renewLua)
	release = newScript(recordLua + findLua + releaseLua)
	look    = newScript(recordLua + lookLua)
	sweep   = newScript(recordLua + sweepLua)
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
