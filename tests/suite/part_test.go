package main

import (
	"slices"
	"testing"
)

func TestGrouped(t *testing.T) {
	chosen := []test{
		{"example.com/m/tests/a", "TestOne"},
		{"example.com/m/tests/a", "TestMany/sub/with_(a)_sign"},
		{"example.com/m/tests/a", "TestTwo"},
		{"example.com/m/tests/a", "TestMany/sub/other"},
		{"example.com/m/tests/b/c", "TestMany/sub"},
		{"example.com/m/tests/b/c", "TestMore/another"},
		{"example.com/m/tests/b/c", "TestMore/sub"},
		{"example.com/m/tests/b/c", "TestLast/sub"},
		{"example.com/m/tests", "TestTop"},
	}
	got := grouped(chosen, "example.com/m/tests")
	want := []tests{
		{`^(TestOne|TestTwo)$`, "./a"},
		{`^TestMany$/^sub$/^(with_\(a\)_sign|other)$`, "./a"},
		{`^(TestMany|TestLast)$/^sub$`, "./b/c"},
		{`^TestMore$/^(another|sub)$`, "./b/c"},
		{`^(TestTop)$`, "./"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
