package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
)

// A panic while looking reaches who has a terminal to put in order.
func TestWatchReportsPanics(t *testing.T) {
	l := looker{where: location.Location{File: filepath.Join(t.TempDir(), "none.db")}}
	sights := l.watch(t.Context(), func() holdfast.Filter { panic("of the test") }, rhythm{interval: time.Hour})
	s := <-sights
	if text, _ := s.panic.(string); !strings.HasPrefix(text, "of the test\n") || !strings.Contains(text, "look_test.go") {
		t.Errorf("got %v", s.panic)
	}
	if _, ok := <-sights; ok {
		t.Error("it goes on")
	}
}

func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := looker{where: location.Location{File: filepath.Join(t.TempDir(), "none.db")}}
	now := make(chan struct{}, 1)
	sights := l.watch(ctx, func() holdfast.Filter { return holdfast.Filter{} }, rhythm{interval: time.Hour, now: now})
	first := <-sights
	if first.err != nil || first.holds != nil || first.pause != time.Hour {
		t.Errorf("got %+v", first)
	}
	now <- struct{}{}
	<-sights
	cancel()
	if _, ok := <-sights; ok {
		t.Error("it goes on")
	}
	drained(sights)
}
