package sqlitelock_test

import "testing"

func makePipe(*testing.T, string) {}
