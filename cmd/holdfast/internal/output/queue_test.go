package output

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// queueOf returns a queue, what says one line to it, and what it has written.
func queueOf(t *testing.T, blocked <-chan struct{}) (q *queue, say func(text string), written *[]string) {
	t.Helper()
	written = new([]string)
	write := func(text string) {
		<-blocked
		*written = append(*written, text)
	}
	q = &queue{omitted: func(n int) { write(fmt.Sprint(n, " left out")) }}
	return q, func(text string) { q.do(func() { write(text) }) }, written
}

// Lines that somebody reads are written when do returns, in their order.
func TestQueueIsRead(t *testing.T) {
	for _, brief := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			open := make(chan struct{})
			close(open)
			q, say, written := queueOf(t, open)
			q.brief = brief
			var want []string
			for i := range 3 * maxLines {
				say(fmt.Sprint(i))
				want = append(want, fmt.Sprint(i))
				if !slices.Equal(*written, want) {
					t.Fatalf("after line %d: %q", i, *written)
				}
			}
			q.wait(atEnd)
		})
	}
}

// Lines that nobody reads hold up nobody for long; as many as there is room for come out
// later, and then how many do not.
func TestQueueIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		q, say, written := queueOf(t, blocked)
		q.waitBriefly()
		began := time.Now()
		var want []string
		for i := range 2 * maxLines {
			say(fmt.Sprint(i))
			if i <= maxLines { // one is being written
				want = append(want, fmt.Sprint(i))
			}
		}
		if took := time.Since(began); took != briefly {
			t.Errorf("it took %v, want %v once", took, briefly)
		}
		began = time.Now()
		q.wait(atEnd)
		if took := time.Since(began); took != atEnd {
			t.Errorf("the end took %v, want %v", took, atEnd)
		}
		close(blocked)
		q.wait(atEnd)
		say("last")
		want = append(want, fmt.Sprint(maxLines-1, " left out"), "last")
		if !slices.Equal(*written, want) {
			t.Errorf("written: %q", *written)
		}
	})
}

// Without a lock, a line is waited for however long that takes, as by any program.
func TestQueueIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(blocked) })
		_, say, written := queueOf(t, blocked)
		say("a")
		if !slices.Equal(*written, []string{"a"}) {
			t.Errorf("written: %q", *written)
		}
	})
}
