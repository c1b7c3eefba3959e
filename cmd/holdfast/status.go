package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show who holds what",
		Long: `Shows the holds that block others. LEFT is the time until a hold ends unless its
holder renews it.`,
		Args:                  noArgs,
		DisableFlagsInUseLine: true,
	}
	store := storeFlag(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print one JSON array, [] if nothing is held")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		where, err := store()
		if err != nil {
			return err
		}
		holds, err := listHolds(cmd.Context(), where)
		if err != nil {
			return err
		}
		if *asJSON {
			return printed(writeJSON(os.Stdout, holds))
		}
		if len(holds) == 0 {
			// Not on stdout, where a script looks for rows.
			_, err := fmt.Fprintln(os.Stderr, "nothing is held")
			return printed(err)
		}
		return printed(writeTable(os.Stdout, table(holds)))
	}
	return cmd
}

// listHolds returns the holds by resource and by when they were granted.
func listHolds(ctx context.Context, where location) ([]holdfast.Status, error) {
	if where.empty() {
		return nil, nil
	}
	client, err := where.open(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var holds []holdfast.Status
	for s, err := range client.Holds(ctx, holdfast.Filter{}) {
		if err != nil {
			return nil, where.failure(err)
		}
		holds = append(holds, s)
	}
	slices.SortFunc(holds, func(a, b holdfast.Status) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Token, b.Token))
	})
	return holds, nil
}

func table(holds []holdfast.Status) [][]string {
	rows := [][]string{{"RESOURCE", "MODE", "OWNER", "HOST", "LEFT", "TOKEN", "LOCK ID", "COMMENT"}}
	for _, s := range holds {
		rows = append(rows, []string{
			s.Resource, s.Mode.String(), s.Owner, s.Host, left(s.Left),
			strconv.FormatUint(s.Token, 10), s.LockID, s.Comment,
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
	Owner    string          `json:"owner"`
	Host     string          `json:"host"`
	Comment  string          `json:"comment"`
	Token    uint64          `json:"token"`
	// TTLMs is the time left: -1 without an end, null if the store cannot tell.
	TTLMs           *int64     `json:"ttlMs"`
	CreatedAt       *time.Time `json:"createdAt"`
	RenewedAt       *time.Time `json:"renewedAt"`
	TakeoverDelayMs int64      `json:"takeoverDelayMs"`
}

func entryOf(s holdfast.Status) entry {
	e := entry{
		Resource: s.Resource, LockID: s.LockID, HoldID: s.HoldID, Mode: s.Mode,
		Owner: s.Owner, Host: s.Host, Comment: s.Comment, Token: s.Token,
		CreatedAt: moment(s.Created), RenewedAt: moment(s.Renewed),
		TakeoverDelayMs: s.TakeoverDelay.Milliseconds(),
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

func writeJSON(out io.Writer, holds []holdfast.Status) error {
	entries := make([]entry, len(holds)) // [] rather than null
	for i, s := range holds {
		entries[i] = entryOf(s)
	}
	return encodeJSON(out, entries)
}
