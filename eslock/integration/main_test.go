// Package eslock_test holds the tests of package eslock that need a server.
package eslock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/esnode"
)

func TestMain(m *testing.M) { engines.Main(m) }

// onBoth runs a test on each kind of server.
func onBoth(t *testing.T, test func(t *testing.T, n node)) {
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) { test(t, node{n}) })
}

// node is a server, used by a client without a library.
type node struct{ esnode.Node }

func newNode(t testing.TB, e engines.Engine) node { return node{esnode.New(t, e)} }

// in returns the node for a subtest.
func (n node) in(t testing.TB) node { return newNode(t, n.Engine) }

func newStore(t testing.TB, n eslock.Performer, opts *eslock.Options) *eslock.Store {
	t.Helper()
	s := eslock.New(n, opts)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
