package redislock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// permanent lists prefixes of errors that persist until somebody fixes the cause, each with
// its explanation. The request was not applied. Each prefix has one cause, except MOVED:
// a Cluster sends it also to a client that follows redirections, while slots move.
//
// Not listed are errors that pass by themselves: OOM, as keys expire and buffers empty;
// MISCONF, with the next snapshot that succeeds; and the errors of a server that starts,
// fails over, or has too many clients: LOADING, READONLY, MASTERDOWN, CLUSTERDOWN,
// TRYAGAIN, NOREPLICAS, BUSY, "max number of clients reached".
var permanent = []struct{ prefix, why string }{
	{"NOAUTH", "the server requires a password"},
	{"WRONGPASS", "the server refuses user or password"},
	{"invalid password", "the server refuses the password"},
	{"AUTH <password> called without any password", noPassword},
	{"Client sent AUTH, but no password is set", noPassword},
	{"NOPERM", lacksRight},
	{"The user executing the script can't", lacksRight},
	{"This instance has cluster support disabled", "the server is not a node of a Cluster: name it alone, without ?cluster=true"},
	{"DB index is out of range", "the server has no database of that number"},
}

const (
	noPassword = "the server has no password set, but the client sends one"
	inCluster  = "the server is a node of a Cluster: name more than one node in the URL, or add ?cluster=true, or use a ClusterClient"
)

// transient lists prefixes of errors that may pass by themselves, with what to do
// otherwise.
var transient = []struct{ prefix, why string }{
	{"OOM", "the server's memory is full: raise maxmemory or delete keys"},
	{"MISCONF", "the server refuses to write, because it cannot save its data: check its disk"},
}

// inScript matches what can precede such a prefix: ERR, a place in the script (Redis 6),
// and the minus sign of an error.
var inScript = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(ERR )?(@user_script: ?\d+: )?-?(ERR )?`) })

const lacksRight = "the user lacks a right that the store needs: docs/redis.md lists them"

// wrap adds the name of the store to an error. Lasting errors become driver.ErrUnusable.
// All other errors mean that the outcome is unknown.
func (s *Store) wrap(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, driver.ErrUnusable), errors.Is(err, driver.ErrDamaged), errors.Is(err, driver.ErrUnsupported):
		return err
	}
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return unusable("this machine does not trust the server's certificate", err)
	}
	text := inScript().ReplaceAllString(err.Error(), "")
	for _, l := range permanent {
		if strings.HasPrefix(text, l.prefix) {
			return unusable(l.why, err)
		}
	}
	if s.cluster == nil && strings.HasPrefix(text, "MOVED") {
		return unusable(inCluster, err)
	}
	for _, p := range transient {
		if strings.HasPrefix(text, p.prefix) {
			return fmt.Errorf("redis: %s: %w", p.why, err)
		}
	}
	return fmt.Errorf("redis: %w", err)
}

func unusable(why string, err error) error {
	if err == nil {
		return fmt.Errorf("%w: redis: %s", driver.ErrUnusable, why)
	}
	return fmt.Errorf("%w: redis: %s: %w", driver.ErrUnusable, why, err)
}

// explain is like wrap, but returns driver.ErrDamaged if a damaged record caused the
// script's error.
func (s *Store) explain(resource string, err error) error {
	if isDamage(err) {
		return damaged(resource, err)
	}
	return s.wrap(err)
}

// isDamage reports whether the script could not decode the record or calculate with its
// values. In both cases it has written nothing.
func isDamage(err error) bool {
	text := err.Error()
	for _, part := range []string{"DAMAGED ", "WRONGTYPE ", "attempt to ", "Bad data format", "Missing bytes"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
