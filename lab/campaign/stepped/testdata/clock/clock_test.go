//go:build stepped

// Package clock prints how far its wall clock moves, and how much time really passes.
package clock

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for go:linkname
)

//go:linkname wallStep time.wallStep
var wallStep int64

func TestMain(*testing.M) {
	before := time.Now()
	atomic.StoreInt64(&wallStep, -3600)
	after := time.Now()
	fmt.Println(after.Round(0).Sub(before.Round(0)).Round(time.Minute), after.Sub(before).Round(time.Minute))
	os.Exit(0)
}
