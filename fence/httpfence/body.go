package httpfence

import (
	"errors"
	"io"
	"net/http"
)

// body is the body of a request. Reading fails as soon as the request is overtaken: the
// service must not get data that arrives later.
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

// Close is treated as a read, because that of net/http reads the rest of the body.
func (b body) Close() error {
	if b.visit.beginRead() {
		defer b.visit.endRead(true)
	} else {
		b.visit.failRest()
	}
	return b.ReadCloser.Close()
}

// beginRead reports whether the service may read. If so, it reads until endRead.
func (v *visit) beginRead() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.overtaken() {
		return false
	}
	v.reading++
	return true
}

// failRest makes the reads inside Close fail.
func (v *visit) failRest() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unread {
		v.unread = false
		v.setPast((*http.ResponseController).SetReadDeadline)
	}
}

// endRead reports whether the service may get the data that was read. all means that
// there is no more.
func (v *visit) endRead(all bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reading--
	v.unread = v.unread && !all
	return !v.overtaken()
}
