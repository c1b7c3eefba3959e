package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The error types that both eslock and its fence know.
const (
	DocumentMissing = "document_missing_exception"
	Conflict        = "version_conflict_engine_exception"
)

// Error is a server's explanation of an error.
type Error struct {
	Status int
	Type   string
	Reason string
	Cause  string // the innermost cause
}

func (e *Error) Error() string {
	text := fmt.Sprintf("status %d", e.Status)
	for _, part := range []string{e.Type, e.Reason, e.Cause} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

// HTTPStatus returns the status, for packages that cannot name the type.
func (e *Error) HTTPStatus() int { return e.Status }

// UnmarshalJSON reads an object, or a text, which some errors are.
func (e *Error) UnmarshalJSON(text []byte) error {
	type cause struct {
		Type, Reason string
		By           *cause `json:"caused_by"`
	}
	var c cause
	if json.Unmarshal(text, &c) != nil && json.Unmarshal(text, &e.Reason) != nil {
		e.Reason = "an error that cannot be understood"
	}
	if e.Reason != "" {
		return nil
	}
	e.Type = c.Type
	// Some servers append the request, with the script and the caller's values.
	e.Reason, _, _ = strings.Cut(c.Reason, ", request: [")
	for by := c.By; by != nil; by = by.By {
		e.Cause = by.Type + ": " + by.Reason
	}
	return nil
}

// IsConflict reports whether another write interfered, so that nothing was changed.
func IsConflict(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusConflict && e.Type == Conflict
}

// IsTooLarge reports whether a request was too large, so that it was not processed.
func IsTooLarge(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusRequestEntityTooLarge
}
