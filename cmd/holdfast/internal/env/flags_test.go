package env

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
)

// tree is a program that has a flag of each kind, and what its command took.
func tree() (root *cobra.Command, took map[string]string) {
	took = make(map[string]string)
	root = &cobra.Command{
		Use:           "holdfast",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(Take(cmd), CheckRivals(cmd))
		},
	}
	for _, name := range []string{"run", "lock", "status", "serve"} {
		cmd := &cobra.Command{Use: name, Args: cobra.NoArgs}
		flags := cmd.Flags()
		wait := new(time.Duration)
		span.Var(flags, wait, "wait", 0, "")
		now := flags.BoolP("no-wait", "n", false, "")
		cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
		limit := flags.Int("limit", 0, "")
		comment := flags.String("comment", "none", "")
		store := flags.String("store", "", "")
		lockID := flags.String("lock-id", "", "")
		token := flags.Uint64("token", 0, "")
		cmd.RunE = func(*cobra.Command, []string) error {
			took["all"] = fmt.Sprintf("%v %v %d %q %s %q %d", *wait, *now, *limit, *comment, *store, *lockID, *token)
			if *limit < 0 {
				return exit.Usagef("--limit %d is negative", *limit)
			}
			if *comment == "bad" {
				return exit.Usagef("comment is not valid")
			}
			if *lockID == "bad" {
				return exit.Usagef("the lock ID is not valid")
			}
			return nil
		}
		root.AddCommand(cmd)
	}
	return root, took
}

func TestTakeVariables(t *testing.T) {
	const nothing = `0s false 0 "none"  "" 0`
	for _, c := range []struct {
		variables, args string
		want            string // what the command took, or its error
	}{
		{"", "run", nothing},
		{"WAIT=1m LIMIT=3 COMMENT=why STORE=local", "run", `1m0s false 3 "why" local "" 0`},
		{"WAIT=1m LIMIT=3", "run --limit 4 --wait=2s", `2s false 4 "none"  "" 0`},
		{"COMMENT=", "run", `0s false 0 ""  "" 0`},
		{"NO_WAIT=1", "run", `0s true 0 "none"  "" 0`},
		{"NO_WAIT=true", "run", `0s true 0 "none"  "" 0`},

		// The command line beats the variables of what it excludes.
		{"WAIT=1m", "run -n", `0s true 0 "none"  "" 0`},
		{"NO_WAIT=1", "run --wait 1s", `1s false 0 "none"  "" 0`},
		{"NO_WAIT=false WAIT=1m", "run", `1m0s false 0 "none"  "" 0`},
		{"NO_WAIT=1 WAIT=1m", "run", "HOLDFAST_NO_WAIT and HOLDFAST_WAIT exclude each other; give one of them"},
		{"", "run -n --wait 1s", "--no-wait and --wait exclude each other; give one of them"},

		// What run tells its command is no flag of what runs within.
		{"LOCK_ID=me TOKEN=7", "status", nothing},
		{"LOCK_ID=me", "lock", `0s false 0 "none"  "me" 0`},
		{"LOCK_ID=me", "run --lock-id other", `0s false 0 "none"  "other" 0`},

		// run and lock share theirs; serve has its own, and others have none.
		{"WAIT=1m LIMIT=3 STORE=local", "lock", `1m0s false 3 "none" local "" 0`},
		{"WAIT=1m LIMIT=3 STORE=local", "status", `0s false 0 "none" local "" 0`},
		{"SERVE_LIMIT=3 SERVE_NO_WAIT=t", "serve", `0s true 3 "none"  "" 0`},
		{"WAIT=1m LIMIT=3 STORE=local", "serve", `0s false 0 "none" local "" 0`},
		{"STATUS_LIMIT=3 LIMIT=3 STATUS_NO_WAIT=junk", "status", nothing},
		{"SERVE_LIMIT=3 RUN_LIMIT=3 LIMITS=3 HELP=1 SERVE_STORE=x", "run", nothing},

		{"WAIT=soon", "run", `HOLDFAST_WAIT cannot be "soon": want a duration such as 30s, 1h30m or 30, which is in seconds`},
		{"WAIT=", "run", `HOLDFAST_WAIT cannot be "": want a duration such as 30s, 1h30m or 30, which is in seconds`},
		{"LIMIT=two", "run", `HOLDFAST_LIMIT cannot be "two": want a whole number`},
		{"NO_WAIT=", "run", `HOLDFAST_NO_WAIT cannot be "": want true or false`},
		{"SERVE_NO_WAIT=maybe", "serve", `HOLDFAST_SERVE_NO_WAIT cannot be "maybe": want true or false`},
		{"WAIT=soon", "run --wait 1s", `1s false 0 "none"  "" 0`},
		{"WAIT=soon", "status", nothing},

		// What the command itself finds wrong.
		{"LIMIT=-1", "run", "--limit -1 is negative (from HOLDFAST_LIMIT)"},
		{"COMMENT=bad", "run", "comment is not valid (from HOLDFAST_COMMENT)"},
		{"LOCK_ID=bad", "lock", "the lock ID is not valid (from HOLDFAST_LOCK_ID)"},
		{"LIMIT=-1 COMMENT=x", "run --wait 1s", "--limit -1 is negative (from HOLDFAST_LIMIT)"},
		{"COMMENT=x", "run --limit -1", "--limit -1 is negative"},
	} {
		t.Run(c.args+"_"+c.variables, func(t *testing.T) {
			for v := range strings.FieldsSeq(c.variables) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv("HOLDFAST_"+name, value)
			}
			root, took := tree()
			root.SetArgs(strings.Fields(c.args))
			cmd, err := root.ExecuteC()
			got := took["all"]
			if err != nil {
				got = Blame(cmd, err.Error())
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestMisread(t *testing.T) {
	for args, want := range map[string]string{
		"run --wait ten":                   `--wait cannot be "ten": want a duration such as 30s, 1h30m or 30, which is in seconds; see holdfast run --help`,
		"run --limit two":                  `--limit cannot be "two": want a whole number; see holdfast run --help`,
		"run --limit 99999999999999999999": `--limit cannot be "99999999999999999999": it is out of range; see holdfast run --help`,
		"run -n=yes":                       `--no-wait cannot be "yes": want true or false; see holdfast run --help`,
		"run --wait":                       "flag needs an argument: --wait; see holdfast run --help",
		"status --waits 1s":                "unknown flag: --waits; see holdfast status --help",
		"run --waits 1s":                   "unknown flag: --waits; see holdfast run --help",
		"run --nb":                         "unknown flag: --nb; did you mean --no-wait? see holdfast run --help",
		"run -w 5":                         "unknown shorthand flag: 'w' in -w; did you mean --wait? see holdfast run --help",
		"run -z":                           "unknown shorthand flag: 'z' in -z; see holdfast run --help",
		"run --no-such-flag":               "unknown flag: --no-such-flag; see holdfast run --help",
		"--waits 1s":                       "unknown flag: --waits; see holdfast --help",
	} {
		root, _ := tree()
		root.SetArgs(strings.Fields(args))
		cmd, err := root.ExecuteC()
		if err == nil {
			t.Fatalf("%s is parsed", args)
		}
		if got := Misread(cmd, err); got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}

// What cobra calls its annotation is not a part of its API.
func TestRivals(t *testing.T) {
	cmd := &cobra.Command{Use: "x"}
	cmd.Flags().Duration("a", time.Second, "")
	cmd.Flags().Duration("b", time.Second, "")
	cmd.Flags().Duration("c", time.Second, "")
	cmd.MarkFlagsMutuallyExclusive("a", "b")
	cmd.MarkFlagsMutuallyExclusive("a", "c")
	for name, want := range map[string]string{"a": "bc", "b": "a", "c": "a"} {
		got := ""
		for _, r := range rivals(cmd.Flags(), cmd.Flags().Lookup(name)) {
			got += r.Name
		}
		if got != want {
			t.Errorf("%s excludes %s, want %s", name, got, want)
		}
	}
}
