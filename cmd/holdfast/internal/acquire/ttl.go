package acquire

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
)

// ParseTTL reads a TTL that ends.
func ParseTTL(text string) (time.Duration, error) {
	ttl, err := span.Parse(text)
	switch {
	case err != nil:
		return 0, err
	case ttl < holdfast.MinTTL:
		return 0, fmt.Errorf("a TTL is at least %v", holdfast.MinTTL)
	case ttl > holdfast.MaxTTL:
		return 0, errors.New("a TTL is at most 100 years")
	}
	return ttl, nil
}

// ParseTTLOrForever reads a TTL that need not end.
func ParseTTLOrForever(text string) (time.Duration, error) {
	if text == "forever" {
		return holdfast.Forever, nil
	}
	return ParseTTL(text)
}
