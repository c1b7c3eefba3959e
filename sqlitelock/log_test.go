package sqlitelock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sqlitelock"
)

// childChange acquires and releases a lock of its own a number of times, and prints how
// large the log was at most.
func childChange(args []string, in *bufio.Scanner, out io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	ctx := context.Background()
	// On an overloaded machine one process may wait long.
	s, err := sqlitelock.Open(ctx, args[0], &sqlitelock.Options{BusyTimeout: time.Minute})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	in.Scan()
	most := int64(0)
	for range n {
		ref, err := acquire(ctx, s, request(fmt.Sprint(os.Getpid()), "a", time.Hour))
		if err == nil {
			err = release(ctx, s, ref)
		}
		if err != nil {
			return err
		}
		if info, err := os.Stat(args[0] + "-wal"); err == nil {
			most = max(most, info.Size())
		}
	}
	fmt.Fprintln(out, most)
	return s.Close()
}

func init() { children["change"] = childChange }

// The log does not grow with the number of writes, even if several processes constantly
// write, so that SQLite's own checkpoints never reach its end.
func TestLogIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: writes 160 MB")
	}
	const processes, pairs, most = 8, 2500, 64 << 20
	path := newFile(t)
	var all [processes]*child
	for i := range all {
		all[i] = start(t, "change", path, strconv.Itoa(pairs))
		all[i].hear("ready")
	}
	for _, c := range all {
		c.say("go")
	}
	log := 0
	for _, c := range all {
		c.out.Scan()
		n, err := strconv.Atoi(c.out.Text())
		check(t, err)
		log = max(log, n)
		c.end()
	}
	t.Logf("the log had %d MB at most, of %d changes", log>>20, 2*processes*pairs)
	if log > most {
		t.Errorf("the log had %d MB, want %d at most", log>>20, most>>20)
	}
}
