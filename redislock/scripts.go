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
	//go:embed answer.lua
	answerLua string
)

// The scripts: one for each operation. What is usual comes first.
var (
	acquire = newScript(keyLua + grantLua + recordLua + acquireLua + answerLua)
	renew   = newScript(keyLua + recordLua + findLua + renewLua + answerLua)
	release = newScript(keyLua + freeLua + recordLua + findLua + releaseLua + answerLua)
	look    = newScript(keyLua + recordLua + lookLua + answerLua)
	sweep   = newScript(keyLua + recordLua + sweepLua + answerLua)
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

// terms are what a script is told for all keys: some numbers, and then a word.
type terms struct {
	n       int
	numbers [4]int64
	word    string
}

func newTerms(word string, numbers ...int64) terms {
	t := terms{n: len(numbers), word: word}
	copy(t.numbers[:], numbers)
	return t
}

// text is how a script has them.
func (t *terms) text() string {
	text := make([]byte, 0, 16*t.n+len(t.word))
	for _, n := range t.numbers[:t.n] {
		text = appendDigits(text, 16, uint64(n))
	}
	return string(append(text, t.word...))
}

// named is how a script has the name of a hold: its token, hold ID and lock ID, zeros
// for none.
func named(ref *driver.HoldRef) []byte {
	text := make([]byte, 0, 16+2*len(ref.HoldID)+4+len(ref.LockID))
	text = appendDigits(text, 16, ref.Token)
	text = hex.AppendEncode(text, ref.HoldID[:])
	return appendSized(text, ref.LockID)
}

// hold is how a script has what it is to grant.
func hold(q *driver.AcquireRequest) []byte {
	text := make([]byte, 0, 2*len(q.HoldID)+1+2*16+4*4+len(q.LockID)+len(q.Details.Owner)+len(q.Details.Host)+len(q.Details.Comment))
	text = hex.AppendEncode(text, q.HoldID[:])
	text = appendSized(text, q.LockID)
	text = appendDigits(text, 1, uint64(q.Mode))
	text = appendDigits(text, 16, uint64(micros(q.TTL)))
	text = appendDigits(text, 16, uint64(micros(q.TakeoverDelay)))
	for _, detail := range [...]string{q.Details.Owner, q.Details.Host, q.Details.Comment} {
		text = appendSized(text, detail)
	}
	return text
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
