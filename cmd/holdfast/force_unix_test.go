package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// What was shown is released after a yes, and nothing after any other answer.
func TestForceAsks(t *testing.T) {
	t.Parallel()
	const question = `\ARESOURCE +MODE [^\n]+\nr +exclusive +ada +web1 [^\n]+ why\\tnot\n` +
		`Release this hold by force\? [^\n]+ \[y/N\] ?`
	const done, undone = "holdfast: released by force: 1 of 1", "holdfast: nothing was released"
	for answer, want := range map[string]string{
		"y\n":       "y\n" + done,
		"YES\n":     "YES\n" + done,
		"\n":        "\n" + undone,
		"n\n":       "n\n" + undone,
		"yep\n":     "yep\n" + undone,
		"\x04":      "\n" + undone, // Ctrl-D
		"y\x04\x04": "y\n" + undone,
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			url, _ := heldStore(t)
			s := onTerminal(t, 200, 24, "holdfast", "unlock", "--store", url, "--force", "r")
			s.matches(question + `\z`)
			s.send(answer)
			s.leaves(question + regexp.QuoteMeta(want) + `\z`)
			client, err := holdfast.Open(t.Context(), url, nil)
			check(t, err)
			defer client.Close()
			_, err = client.TryLock(t.Context(), "r", nil)
			if free := err == nil; free != strings.HasSuffix(want, done) {
				t.Errorf("after the answer %q: %v", answer, err)
			}
		})
	}
}

// A hold that was granted while somebody was thinking about the answer was not
// shown, and stays.
func TestForceReleasesWhatWasShown(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	s := onTerminal(t, 200, 24, "holdfast", "unlock", "--store", url, "--force", "r")
	s.matches(`\[y/N\]\z`)
	give(t, hold)
	client, err := holdfast.Open(t.Context(), url, nil)
	check(t, err)
	defer client.Close()
	if _, err := client.TryLock(t.Context(), "r", &holdfast.LockOptions{LockID: "next"}); err != nil {
		t.Fatal(err)
	}
	s.send("y\n")
	s.matches(`\nholdfast: "r" is not held any more\z`)
	s.end()
	renewed, err := client.Admin().RenewID(t.Context(), "next", holdfast.DefaultTTL)
	if err != nil || len(renewed) != 1 {
		t.Errorf("the hold that was not shown: %v, %v", renewed, err)
	}
}
