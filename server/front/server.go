package front

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net/http"
	"time"
)

// Server returns a http.Server for the handler, with time-outs, for all of the listeners of
// this package. It has no WriteTimeout: a wait that took longer would answer into nothing. So
// a handler bounds its writes by itself, except that HTTP/2 does so too.
func Server(h http.Handler, logger *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		ConnContext:       ConnContext,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second, // longer than balancers', which must be the ones that close
		MaxHeaderBytes:    64 << 10,
		// A peer that is gone without a word keeps its waits no longer than this.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, WriteByteTimeout: 10 * time.Second},
	}
	if logger != nil {
		s.ErrorLog = log.New(errorLog{logger}, "", 0)
	}
	return s
}

// errorLog gets the lines of net/http. But for panics, anybody who connects can cause them.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.HasPrefix(line, []byte("http: panic serving")) || bytes.HasPrefix(line, []byte("http2: panic serving")) {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}
