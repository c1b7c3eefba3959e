package httpfence

import (
	"errors"
	"io"
	"net/http"
)

// body is that of a request, and fails as soon as the request is overtaken: what comes
// later is not for the service.
type body struct {
	io.ReadCloser
	visit *visit
}

func (b body) Read(p []byte) (int, error) {
	if !b.visit.beginRead() {
		return 0, errOvertaken
	}
	n, err := b.ReadCloser.Read(p)
	if !b.visit.endRead(errors.Is(err, io.EOF)) {
		return 0, errOvertaken
	}
	return n, err
}

// Close reads, too: that of net/http reads the rest of the body.
func (b body) Close() error {
	if b.visit.beginRead() {
		defer b.visit.endRead(true)
	} else {
		b.visit.failRest()
	}
	return b.ReadCloser.Close()
}

// beginRead reports whether the service may read. It then does so until endRead.
func (v *visit) beginRead() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.overtaken() {
		return false
	}
	v.reading++
	return true
}

// failRest makes what Close reads fail.
func (v *visit) failRest() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unread {
		v.unread = false
		v.setPast((*http.ResponseController).SetReadDeadline)
	}
}

// endRead reports whether the service may get what was read. all: there is no more.
func (v *visit) endRead(all bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reading--
	v.unread = v.unread && !all
	return !v.overtaken()
}
