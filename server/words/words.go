// Package words says in words what a store shows: who holds a resource, whether its holder
// lives, and what is in the way of those that wait.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/driver"
)

// Printable makes a text fit for one line. What is not visible, such as control characters,
// escape sequences and marks that turn the direction of writing, becomes the escape that Go
// has for it in a string.
func Printable(text string) string {
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		char := text[:size]
		text = text[size:]
		if !strconv.IsGraphic(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.Quote(char)
			char = quoted[1 : len(quoted)-1]
		}
		b.WriteString(char)
	}
	return b.String()
}

// Holder names the holder of a hold.
func Holder(h driver.Status) string { return client(h.Owner, h.Host) }

// Waiter names a waiter.
func Waiter(p driver.Place) string { return client(p.Owner, p.Host) }

func client(owner, host string) string {
	switch {
	case owner != "" && host != "":
		return owner + " on " + host
	case owner != "":
		return owner
	case host != "":
		return "a client on " + host
	}
	return "a client without a name"
}

// Duration says how long something takes in at most two units, rounded down: 4 s,
// 2 min 5 s, 3 h 20 min, 2 d 4 h.
func Duration(d time.Duration) string {
	switch {
	case d == driver.Forever:
		return "forever"
	case d == driver.Unknown:
		return "an unknown time"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		n := d / u.size
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", n, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// Mode says how a hold holds, or how a waiter would.
func Mode(mode driver.Mode, limit int) string {
	switch {
	case mode == driver.Exclusive:
		return "exclusively"
	case limit > 0:
		return fmt.Sprintf("as one of %d", limit)
	}
	return "shared"
}

// Count says how many there are of something: 1 hold, 2 holds.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
