package front

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/holdfast-go/holdfast/server/access"
)

// peer is the user at the other end of a Unix socket.
type peer struct {
	uid int
	err error // why it is not known
}

type peerKey struct{}

// ConnContext is http.Server.ConnContext. It notes which user is at the other end of a Unix
// socket.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, err := peerUID(socket)
	return context.WithValue(ctx, peerKey{}, peer{uid, err})
}

// peerOf returns the user at the other end if the request came through a Unix socket.
func peerOf(r *http.Request) (peer, bool) {
	if p, ok := r.Context().Value(peerKey{}).(peer); ok {
		return p, true
	}
	if _, ok := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); ok {
		return peer{err: fmt.Errorf("%w: the server does not use ConnContext", access.ErrAnonymous)}, true
	}
	return peer{}, false
}

// caller returns the operator for root and the server's own user. Others cannot reach the
// socket, unless somebody has opened its folder or given them a connection.
func (p peer) caller() (access.Caller, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case p.uid != 0 && p.uid != os.Geteuid():
		return nil, fmt.Errorf("%w: the socket is for root and the server's own user, not for user %d", access.ErrAnonymous, p.uid)
	}
	return access.Operator(), nil
}

func (p peer) String() string {
	if p.err != nil {
		return "unix"
	}
	return fmt.Sprintf("unix:%d", p.uid)
}
