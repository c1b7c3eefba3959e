package exit

import (
	"fmt"
	"strconv"
	"strings"
)

// statuses explains the exit statuses that are holdfast's own.
var statuses = []struct {
	status, meaning, advice string
	run                     bool // to be listed in the help of run
}{
	{strconv.Itoa(Failed), "something else failed; of status, held and unlock: it is not held",
		"do as the line on stderr says", false},
	{strconv.Itoa(Usage), "the command line or a variable is wrong; nothing was done",
		"correct it as the line on stderr says", true},
	{strconv.Itoa(Store), "the store cannot be used or did not answer; the command was not run",
		"fix what the line names, or try again later", true},
	{strconv.Itoa(NotAcquired), "no lock in time; the command was not run",
		"try again later or wait longer with --wait; -E sets another status", true},
	{strconv.Itoa(Lost), "the lock was lost; the command was ended",
		"check what was left unfinished, then run it again; see --lost-exit", true},
	{strconv.Itoa(Overtime), "the command ran longer than --max-runtime, and was ended",
		"check what was left unfinished; give it more time with --max-runtime", true},
	{strconv.Itoa(NotExecutable), "the command cannot be run, or not as --isolate wants",
		"look at its permissions, format and #! line, and at stderr", true},
	{strconv.Itoa(NotFound), "there is no such command",
		"look at its name and PATH; cron's is short", true},
	{strconv.Itoa(Signaled) + "+n", "signal n ended the command, or run before it",
		"find out who sent it: 130 is Ctrl-C, 137 KILL, 143 TERM", true},
}

// HelpOfRun returns the exit statuses of run, for its help.
func HelpOfRun() string {
	var b strings.Builder
	for _, s := range statuses {
		if s.run {
			fmt.Fprintf(&b, "  %-5s  %s\n", s.status, s.meaning)
		}
	}
	return b.String()
}

// Help returns the help topic exit-codes.
func Help() string {
	var b strings.Builder
	b.WriteString(`The exit status of run is that of its command, which ran under the lock from
beginning to end. holdfast itself exits with 0 if all went well, and else with
one line on stderr that begins with "holdfast:" and

`)
	for _, s := range statuses {
		fmt.Fprintf(&b, "  %-5s  %s\n         -> %s\n", s.status, s.meaning, s.advice)
	}
	return b.String()
}
