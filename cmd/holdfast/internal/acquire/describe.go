package acquire

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// describe says who is in the way.
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

// otherLimit says what is wrong if the request has another limit than the holders.
func otherLimit(e *holdfast.HeldError) string {
	if !e.LimitDiffers {
		return ""
	}
	for _, s := range e.Holders {
		if s.Mode == holdfast.Shared && s.Limit != holdfast.LimitUnknown {
			return fmt.Sprintf(", with --limit %d: all who share it must give the same limit", s.Limit)
		}
	}
	return ", with another --limit: all who share it must give the same limit"
}

// holder says whose a hold is.
func holder(s holdfast.Status) string {
	switch {
	case s.Owner != "" && s.Host != "":
		return s.Owner + " on " + s.Host
	case s.Owner != "":
		return s.Owner
	}
	return "lock ID " + s.LockID
}

// more says how many holders there are besides the one that is named.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
