package server

import "sync"

// drain is how far the end of the server has come.
type drain struct {
	began, waitsEnded chan struct{}
	begin, endWaits   func()
}

func (d *drain) init() {
	d.began, d.waitsEnded = make(chan struct{}), make(chan struct{})
	d.begin = sync.OnceFunc(func() { close(d.began) })
	d.endWaits = sync.OnceFunc(func() { close(d.waitsEnded) })
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Drain makes /readyz fail, so that balancers send no more requests. All else goes on.
func (s *Server) Drain() { s.drain.begin() }

// EndWaits ends waits and watches, so that their callers go to another server, and does
// Drain. New waits and watches are refused; everything else is served as before. An attempt
// that is on its way to the store is awaited: a caller that it grants is told so.
func (s *Server) EndWaits() {
	s.drain.begin()
	s.drain.endWaits()
}

func (s *Server) waitsEnded() bool { return isClosed(s.drain.waitsEnded) }
