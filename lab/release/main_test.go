package main

import "testing"

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"v0.1.0":      true,
		"v1.20.3":     true,
		"v1.0.0-rc.1": true,
		"v2.0.0":      false,
		"v0.1":        false,
		"0.1.0":       false,
		"v0.01.0":     false,
		"v0.1.0 -f":   false,
		"":            false,
	} {
		if got := versions.MatchString(version); got != want {
			t.Errorf("%q: taken %t, want %t", version, got, want)
		}
	}
}
