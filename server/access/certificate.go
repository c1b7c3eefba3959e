package access

import (
	"crypto/tls"
	"fmt"
	"time"
)

// certificateName returns the name in the client's certificate that a caller of the file has,
// or "" if it has none. Several names are fine if they are all of one caller.
func (p *policy) certificateName(state *tls.ConnectionState) (string, error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return "", nil
	}
	leaf := state.VerifiedChains[0][0]
	names := append([]string(nil), leaf.DNSNames...)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	var found string
	for _, name := range names {
		m := p.certs[name]
		switch {
		case m == nil:
		case found == "" || m == p.certs[found]:
			found = name
		default:
			return "", fmt.Errorf("%w: the client certificate has names of different callers", ErrAnonymous)
		}
	}
	// It was valid when the connection was made, which may be long ago.
	if found != "" && time.Now().After(leaf.NotAfter) {
		return "", fmt.Errorf("%w: the client certificate has expired", ErrAnonymous)
	}
	return found, nil
}
