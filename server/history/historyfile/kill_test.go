package historyfile_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/server/history/historyfile"
)

// childEnv has the file to which the test binary is to write, as a server does that is killed.
const childEnv = "HISTORYFILE_TEST_WRITES"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := write(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// write notes holds, and prints how many are written.
func write(path string) error {
	log, err := historyfile.Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	for told := uint64(0); ; {
		for range 50 {
			h := driver.Status{Resource: "r", HoldID: driver.NewHoldID(), Token: 1}
			log.Granted(h, "ada")
			log.Released(h.Ref(), time.Now())
		}
		for {
			s := log.State()
			if s.Err != nil {
				return s.Err
			}
			if s.Noted > told {
				told = s.Noted
				fmt.Println(told)
				break
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// A process is killed at any moment while it writes. The file opens again, and what the process
// has seen as written is there.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	rounds := 5
	if !testing.Short() {
		rounds = 50
	}
	have := uint64(0)
	for range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan()
		timer := time.AfterFunc(rand.N(100*time.Millisecond), func() { _ = cmd.Process.Kill() })
		written := uint64(0)
		for more := true; more; more = lines.Scan() {
			var n uint64
			if _, err := fmt.Sscan(lines.Text(), &n); err == nil {
				written = max(written, n) // a line that was cut has a smaller number
			}
		}
		_ = cmd.Wait() // it was killed
		timer.Stop()
		if written == 0 {
			t.Fatal("the process has written nothing")
		}
		log := open(t, path)
		n := 2 * uint64(len(holds(t, log, "r"))) // each has a beginning and an end
		if n < have+written {
			t.Fatalf("%d changes are there, %d were before, and %d were written", n, have, written)
		}
		have = n
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d changes", have)
}
