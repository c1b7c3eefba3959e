package proc

import (
	"bytes"
	"os"
	"strconv"
)

// Marked returns the live processes that began with one of the texts in their
// environment. It does not find those of other users, nor those that were started
// without the variable or have overwritten their environment.
func Marked(marks []string) []Process {
	var found []Process
	for p := range all {
		if p.Dead || p.PID == os.Getpid() {
			continue
		}
		environment, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
		if err != nil {
			continue
		}
		for _, mark := range marks {
			if bytes.Contains(environment, []byte(mark)) {
				found = append(found, p)
				break
			}
		}
	}
	return found
}
