package meters

import (
	"bytes"
	"runtime"
	"runtime/metrics"
)

// writeProcess writes what the process uses, under the names that such metrics have in other
// programs.
func writeProcess(page *bytes.Buffer) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	now(page, gauge, "go_goroutines", "Goroutines of the process.", float64(runtime.NumGoroutine()))
	if heap[0].Value.Kind() == metrics.KindUint64 {
		now(page, gauge, "go_memstats_heap_alloc_bytes", "Memory of objects in the heap.", float64(heap[0].Value.Uint64()))
	}
	writeSystem(page)
}
