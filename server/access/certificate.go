package access

import (
	"crypto/tls"
	"fmt"
	"slices"
	"time"
)

// byCertificate returns the caller that has a name in the client's certificate, and that name,
// or nil if there is none. Several names are fine if they are all of one caller.
func (p *policy) byCertificate(state *tls.ConnectionState) (found *member, by credential, err error) {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil, by, nil
	}
	leaf := state.VerifiedChains[0][0]
	names := slices.Clone(leaf.DNSNames)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	for _, name := range names {
		switch m := p.known[credential{certificate: name}]; {
		case m == nil:
		case found == nil || m == found:
			found, by.certificate = m, name
		default:
			return nil, by, fmt.Errorf("%w: the client certificate has names of different callers", ErrAnonymous)
		}
	}
	// It was valid when the connection was made, which may be long ago.
	if found != nil && time.Now().After(leaf.NotAfter) {
		return nil, by, fmt.Errorf("%w: the client certificate has expired", ErrAnonymous)
	}
	return found, by, nil
}
