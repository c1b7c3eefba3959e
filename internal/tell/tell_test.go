package tell_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/internal/tell"
)

// Calls are made in their order, one at a time, even if one of them blocks or ends its
// goroutine. Calls beyond the limit are left out and counted.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []int
		q := &tell.Queue{Most: 3, Overflow: func(n int) { made = append(made, -n) }}
		if q.Pending() != nil {
			t.Error("an empty queue has calls")
		}
		var text bytes.Buffer
		blocks := make(chan struct{})
		q.Add(func() { <-blocks })
		synctest.Wait()
		q.Add(runtime.Goexit)
		q.Add(func() { made = append(made, 1) })
		q.Logger(slog.New(slog.NewTextHandler(&text, nil))).With("a", 1).WithGroup("g").Info("told", "b", 2)
		for range 5 {
			q.Add(func() { t.Error("a call beyond the limit was made") })
		}
		pending := q.Pending()
		synctest.Wait()
		select {
		case <-pending:
			t.Error("Pending is not nil")
		default:
		}
		close(blocks)
		<-pending
		if want := []int{1, -5}; !slices.Equal(made, want) || !bytes.Contains(text.Bytes(), []byte("msg=told a=1 g.b=2")) || q.Pending() != nil {
			t.Errorf("made %v, want %v; logged %s", made, want, text.Bytes())
		}
	})
}
