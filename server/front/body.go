package front

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// readPatience is how long a body may take, also one that nobody wants: net/http reads
	// some of it before it answers.
	readPatience = 30 * time.Second
	// writePatience is how long a client may take for a refusal.
	writePatience = 10 * time.Second
)

// boundBody bounds the size of a request's body and the time until it is there.
func boundBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(readPatience)); err != nil {
		control = nil // a writer of a test
	}
	r.Body = &body{ReadCloser: http.MaxBytesReader(w, r.Body, wire.MaxBody), control: control}
}

// mostUnread is how much of a body is read for an answer that does not need it.
const mostUnread = 64 << 10

// LeaveUnread makes the answer the last one on its connection if the request has a large body that
// nobody has read: net/http would else read some of it, which costs more than the answer.
func LeaveUnread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > mostUnread {
		w.Header().Set("Connection", "close")
	}
}

// body is a body with a deadline until its end. From there on net/http reads to notice that
// the client hangs up: a deadline would look like that.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.control != nil && errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // it could be set before
	}
	return n, err
}
