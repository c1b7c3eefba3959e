//go:build unix && !linux

package main

// leaderless is for Linux.
func leaderless() {}
