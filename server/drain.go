package server

// Drain makes /readyz fail, so that balancers send no more requests. All else goes on.
func (s *Server) Drain() { s.drain() }

// EndWaits ends waits and watches, so that their callers go to another server, and does
// Drain. New waits and watches are refused; everything else is served as before. An attempt
// that is on its way to the store is awaited: a caller that it grants is told so.
func (s *Server) EndWaits() {
	s.drain()
	s.endWaits()
}
