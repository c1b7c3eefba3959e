package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [flags] [RESOURCE]",
		Short: "Show who holds what",
		Long: `Shows the holds that block others. LEFT is the time until a hold ends unless its
holder renews it. With a RESOURCE the exit status is 0 if it is held and 1 if it
is free.

With --watch it looks again and again, until it is interrupted: on a terminal
it draws the table anew, elsewhere it prints it again when it has changed.`,
		Example: `  holdfast status
  holdfast status backup >/dev/null && echo "still running"
  holdfast status --owner ada --created-before 12h
  holdfast status --watch --json | while read -r holds; do ...; done`,
		DisableFlagsInUseLine: true,
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("status takes one resource, but got %q as well", args[1])
		}
		return nil
	}
	var v view
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	filterFlags(flags, &v.filter)
	flags.BoolVar(&v.json, "json", false, "print one JSON array, [] if there is nothing; with --watch one in each line")
	watch := flags.Bool("watch", false, "look again and again, until interrupted")
	interval := intervalFlag(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if err := driver.ValidResource(args[0]); err != nil {
				return usagef("%v", err)
			}
			v.filter.chosen.Resource = args[0]
		}
		err := errors.Join(v.filter.validate(), validInterval(*interval))
		if err != nil {
			return err
		}
		if v.where, err = store(); err != nil {
			return err
		}
		if *watch {
			return v.watch(cmd.Context(), *interval)
		}
		return v.show(cmd.Context())
	}
	return cmd
}

// view is what status shows, and how.
type view struct {
	where  location
	filter filter
	json   bool
}

// show shows it once.
func (v *view) show(ctx context.Context) error {
	l := looker{where: v.where}
	defer l.close()
	f := v.filter.at(time.Now())
	holds, err := l.holds(ctx, f)
	blocking := len(holds)
	if f.Expired && f.Resource != "" && err == nil {
		// Whether it is held does not depend on what is shown.
		f.Expired = false
		var others []holdfast.Status
		others, err = l.holds(ctx, f)
		blocking = len(others)
	}
	switch {
	case err != nil:
		return v.where.failure(err)
	case v.json:
		err = writeJSON(os.Stdout, holds)
	case len(holds) > 0:
		err = writeTable(os.Stdout, table(holds))
	case f.Resource == "":
		// Not on stdout, where a script looks for rows.
		_, err = fmt.Fprintln(os.Stderr, v.nothing())
	}
	if err == nil && f.Resource != "" && blocking == 0 {
		return exitf(statusFailed, "%s", v.nothing())
	}
	return printed(err)
}

// nothing says that nothing is held, or that nothing of it matches.
func (v *view) nothing() string {
	resource := v.filter.chosen.Resource
	switch {
	case v.filter.narrow && resource != "":
		return fmt.Sprintf("no hold of %q matches", resource)
	case v.filter.narrow:
		return "no hold matches"
	case resource != "":
		return fmt.Sprintf("%q is free", resource)
	}
	return "nothing is held"
}

func table(holds []holdfast.Status) [][]string {
	return tableBy("LOCK ID", holds, func(s holdfast.Status) string { return s.LockID })
}

// tableBy is the table with that ID of each hold.
func tableBy(title string, holds []holdfast.Status, id func(holdfast.Status) string) [][]string {
	rows := [][]string{{"RESOURCE", "MODE", "OWNER", "HOST", "LEFT", "TOKEN", title, "COMMENT"}}
	for _, s := range holds {
		rows = append(rows, []string{
			s.Resource, s.Mode.String(), s.Owner, s.Host, left(s.Left),
			strconv.FormatUint(s.Token, 10), id(s), s.Comment,
		})
	}
	return rows
}

// entry is a hold in JSON. Scripts read it: a field may be added, none changed.
type entry struct {
	Resource string          `json:"resource"`
	LockID   string          `json:"lockId"`
	HoldID   holdfast.HoldID `json:"holdId"`
	Mode     holdfast.Mode   `json:"mode"`
	Limit    *int            `json:"limit"` // null for an exclusive hold, and where it is not known
	Owner    string          `json:"owner"`
	Host     string          `json:"host"`
	Comment  string          `json:"comment"`
	Token    uint64          `json:"token"`
	// TTLMs is the time left: -1 without an end, null if the store cannot tell.
	TTLMs           *int64     `json:"ttlMs"`
	CreatedAt       *time.Time `json:"createdAt"`
	RenewedAt       *time.Time `json:"renewedAt"`
	WaitedAt        *time.Time `json:"waitedAt"`
	TakeoverDelayMs int64      `json:"takeoverDelayMs"`
	Released        bool       `json:"released"`
}

func entryOf(s holdfast.Status) entry {
	e := entry{
		Resource: s.Resource, LockID: s.LockID, HoldID: s.HoldID, Mode: s.Mode,
		Owner: s.Owner, Host: s.Host, Comment: s.Comment, Token: s.Token,
		CreatedAt: moment(s.Created), RenewedAt: moment(s.Renewed), WaitedAt: moment(s.Waited),
		TakeoverDelayMs: s.TakeoverDelay.Milliseconds(), Released: s.Released,
	}
	if s.Mode == holdfast.Shared && s.Limit != holdfast.LimitUnknown {
		e.Limit = &s.Limit
	}
	switch s.Left {
	case driver.Unknown:
	case holdfast.Forever:
		e.TTLMs = new(int64(-1))
	default:
		e.TTLMs = new(s.Left.Milliseconds())
	}
	return e
}

// moment is nil, which is null in JSON, for what never was.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// writeJSON prints an array in many lines.
func writeJSON(out io.Writer, holds []holdfast.Status) error {
	entries := make([]entry, len(holds)) // [] rather than null
	for i, s := range holds {
		entries[i] = entryOf(s)
	}
	return encodeJSON(out, entries)
}

// writeJSONLine prints an array in one line.
func writeJSONLine(out io.Writer, holds []holdfast.Status) error {
	var lines, line bytes.Buffer
	if err := writeJSON(&lines, holds); err != nil {
		return err
	}
	if err := json.Compact(&line, lines.Bytes()); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, line.String())
	return err
}
