// Package proxy puts a network with faults between clients and servers in tests. The faults are
// connections that are refused, cut, slow or half-open, and replies that are lost after the
// server has acted. The package works on bytes, so it serves any protocol.
//
// It uses toxiproxy with a toxic of its own, see toxic.go. A client connects through
// DialContext, which reaches each server through a proxy of its own, or to the Address of such
// a proxy.
package proxy
