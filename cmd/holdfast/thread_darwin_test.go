package main

// leaderless is for Linux.
func leaderless() {}
