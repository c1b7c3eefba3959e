package front

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Server returns a http.Server for the handler, with time-outs, for all of the listeners of
// this package. It has no WriteTimeout: a wait that took longer would answer into nothing. So
// a handler bounds its writes by itself.
//
// It speaks HTTP/1.1 alone: of HTTP/2 one connection can begin any number of requests and take
// each back at once, which costs a caller nothing and is charged to nobody.
//
// The logger gets panics as errors, and of the TLS handshakes that fail one a minute as a
// warning. All else is for debugging: anybody who connects can cause it.
func Server(h http.Handler, logger *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		ConnContext:       ConnContext,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second, // longer than balancers', which must be the ones that close
		MaxHeaderBytes:    16 << 10,          // each that is not complete takes so much memory
		Protocols:         new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	if logger != nil {
		s.ErrorLog = log.New(&errorLog{log: logger}, "", 0)
	}
	return s
}

// errorLog gets the lines of net/http, one after the other. But for panics, anybody who connects
// can cause them.
type errorLog struct {
	log  *slog.Logger
	next time.Time // when a handshake that failed is worth a warning again
}

// handshakePause is how long after a warning of a handshake there is no other one.
const handshakePause = time.Minute

func (l *errorLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	level := slog.LevelDebug
	switch {
	case strings.HasPrefix(text, "http: panic serving"):
		level = slog.LevelError
	case isFailedHandshake(text) && !time.Now().Before(l.next):
		level, l.next = slog.LevelWarn, time.Now().Add(handshakePause)
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}

// isFailedHandshake reports whether the client and the server did not agree, such as on a
// certificate. A client that only hung up, or looked whether the port is open, is none.
func isFailedHandshake(text string) bool {
	return strings.HasPrefix(text, "http: TLS handshake error") && (strings.Contains(text, "tls: ") || strings.Contains(text, "HTTP request"))
}
