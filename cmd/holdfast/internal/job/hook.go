package job

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Hooks are scripts of sh by which run tells others what happens. They run beside the
// command, which waits for none of them.
type Hooks struct {
	onAcquired, onLost string

	spare   func(start func() (pid int, err error)) error // starts what is no process of the command
	running sync.WaitGroup
	lost    sync.Once
	over    context.Context // when it ends, the scripts do
}

// hookPatience is how long run waits at its end for scripts that still run.
const hookPatience = 10 * time.Second

// Flags declares the flags of the hooks.
func (h *Hooks) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&h.onAcquired, "on-acquired", "", "when the lock is acquired, run this `script` of sh; the command does not wait for\n"+
		"it")
	flags.StringVar(&h.onLost, "on-lost", "", "when the lock is lost, run this `script` of sh; HOLDFAST_LOSS says why")
}

// begin prepares for the scripts of one lock. end waits for them, and kills scripts that take
// too long, or all of them at a signal.
func (h *Hooks) begin(signals <-chan os.Signal, spare func(start func() (int, error)) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	h.over, h.spare = ctx, spare
	return func() {
		defer cancel()
		defer time.AfterFunc(hookPatience, cancel).Stop()
		go func() {
			select {
			case <-signals:
				cancel()
			case <-ctx.Done():
			}
		}()
		h.running.Wait()
	}
}

// acquired runs the script for a lock that was acquired.
func (h *Hooks) acquired(env []string) { h.run("--on-acquired", h.onAcquired, env) }

// loss runs the script for a lock that was lost, once.
func (h *Hooks) loss(why error, env []string) {
	h.lost.Do(func() { h.run("--on-lost", h.onLost, append(env, "HOLDFAST_LOSS="+output.Reason(why))) })
}

// run starts a script. Its output goes to stderr, because stdout is the command's.
func (h *Hooks) run(flag, script string, env []string) {
	if script == "" {
		return
	}
	cmd := exec.CommandContext(h.over, "sh", "-c", script)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stderr, os.Stderr
	// A group of its own: a key on the terminal does not reach it, and all of it can be ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := h.spare(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	if err != nil {
		output.Say("the script of %s could not be started: %v", flag, err)
		return
	}
	h.running.Go(func() {
		switch err := cmd.Wait(); {
		case err != nil && h.over.Err() != nil:
			output.Say("the script of %s was killed: run waits for it at most %v, or until a signal", flag, hookPatience)
		case err != nil:
			output.Say("the script of %s failed: %v", flag, err)
		}
	})
}
