package httpfence

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// response is the ResponseWriter of the service. It knows whether the service has begun
// to answer. If an overtaken service just returns, net/http would answer 200, as if it
// had succeeded.
type response struct {
	http.ResponseWriter
	begun atomic.Bool
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		r.begun.Store(true)
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	r.begun.Store(true)
	return r.ResponseWriter.Write(p)
}

// ReadFrom lets net/http send files without copying them. It begins an answer only if
// there is a byte to send.
func (r *response) ReadFrom(from io.Reader) (int64, error) {
	n, err := io.Copy(r.ResponseWriter, from)
	if n > 0 {
		r.begun.Store(true)
	}
	return n, err
}

// FlushError is for http.ResponseController, Flush for services that look for an
// http.Flusher.
func (r *response) FlushError() error {
	err := http.NewResponseController(r.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		r.begun.Store(true)
	}
	return err
}

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// Hijack implements http.Hijacker.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.begun.Store(true)
	}
	return conn, buffer, err
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
