package acquire

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// describe returns the holders of the resource as text.
func describe(e *holdfast.HeldError) string {
	text := fmt.Sprintf("%q is held", e.Resource)
	if len(e.Holders) == 0 {
		return text
	}
	text += " by " + holder(e.Holders[0])
	if c := e.Holders[0].Comment; c != "" {
		text += fmt.Sprintf(" (%s)", c)
	}
	return text + more(len(e.Holders)-1) + otherLimit(e)
}

// otherLimit returns a text if the holders have another limit than the request.
func otherLimit(e *holdfast.HeldError) string {
	if !e.LimitDiffers {
		return ""
	}
	for _, s := range e.Holders {
		if s.Mode == holdfast.Shared && s.Limit != holdfast.LimitUnknown {
			return fmt.Sprintf(", with --limit %d: all programs that share it must give the same limit", s.Limit)
		}
	}
	return ", with another --limit: all programs that share it must give the same limit"
}

// holder names the holder of a hold.
func holder(s holdfast.Status) string {
	switch {
	case s.Owner != "" && s.Host != "":
		return s.Owner + " on " + s.Host
	case s.Owner != "":
		return s.Owner
	}
	return "lock ID " + s.LockID
}

// more returns how many other holders there are.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
