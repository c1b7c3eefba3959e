//go:build unix

package campaign

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
	"github.com/holdfast-go/holdfast/lab/campaign/judge"
)

// kept is a history for which no order was found in time, saved for another search.
type kept struct {
	Events []history.Event
	Known  judge.Circumstances
}

// keep writes a history to the plan's folder for histories, and reports its path.
func (c *campaign) keep(k kept) error {
	if c.plan.Histories == "" {
		return nil
	}
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	file := filepath.Join(c.plan.Histories, fmt.Sprintf("%s-%x-history.json", c.plan.Store, c.plan.Seed))
	c.t.Log("history: ", file)
	return os.WriteFile(file, text, 0o600)
}
