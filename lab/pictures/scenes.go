//go:build linux

package main

import "time"

// steps runs functions until one fails.
func steps(each ...func() error) error {
	for _, step := range each {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *terminal) types(line string) func() error {
	return func() error { return t.typeLine(line) }
}

func (t *terminal) shows(pattern string) func() error {
	return func() error { return t.until(pattern) }
}

func (t *terminal) presses(keys string) func() error {
	return func() error { return t.press(keys) }
}

func pause(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

// recordRun shows two terminals that run the same report.
func recordRun(t *terminal) error {
	return steps(
		func() error {
			return t.script("report.sh", "#!/bin/sh\nfor part in sales stock staff; do echo \"counting $part ...\"; sleep 3; done\necho 'report written'\n")
		},
		t.presses(splitWindow),
		t.shows(`another terminal`),
		pause(500*time.Millisecond),
		func() error { t.restart(); return nil },
		pause(500*time.Millisecond),
		t.types(`holdfast run report --comment "November" -- ./report.sh`),
		t.shows(`counting sales`),
		pause(700*time.Millisecond),
		t.presses(secondPane),
		t.types(`holdfast run -n report -- ./report.sh`),
		t.shows(`is held by`),
		pause(700*time.Millisecond),
		t.types(`holdfast run report -- ./report.sh`),
		t.shows(`waiting for`),
		t.shows(`report written`),
		t.shows(`counting stock`),
		pause(300*time.Millisecond),
	)
}
