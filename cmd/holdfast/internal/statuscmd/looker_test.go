package statuscmd

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
	l := Looker{Where: location.Location{File: filepath.Join(t.TempDir(), "none.db")}}
	sights := l.Watch(t.Context(), func() holdfast.Filter { panic("of the test") }, Rhythm{Interval: time.Hour})
	s := <-sights
	if text, _ := s.Panic.(string); !strings.HasPrefix(text, "of the test\n") || !strings.Contains(text, "looker_test.go") {
		t.Errorf("got %v", s.Panic)
	}
	if _, ok := <-sights; ok {
		t.Error("it goes on")
	}
}

func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := Looker{Where: location.Location{File: filepath.Join(t.TempDir(), "none.db")}}
	now := make(chan struct{}, 1)
	sights := l.Watch(ctx, func() holdfast.Filter { return holdfast.Filter{} }, Rhythm{Interval: time.Hour, Now: now})
	first := <-sights
	if first.Err != nil || first.Holds != nil || first.Pause != time.Hour {
		t.Errorf("got %+v", first)
	}
	now <- struct{}{}
	<-sights
	cancel()
	if _, ok := <-sights; ok {
		t.Error("it goes on")
	}
	Drain(sights)
}
