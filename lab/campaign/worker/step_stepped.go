//go:build stepped

package worker

import (
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

//go:linkname wallStep time.wallStep
var wallStep int64 // seconds

func init() {
	step = func(by time.Duration) { atomic.AddInt64(&wallStep, int64(by/time.Second)) }
}
