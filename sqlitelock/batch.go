package sqlitelock

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/driver/cas"
)

// jsonArray is how a list is bound to one parameter.
func jsonArray(names []string) string {
	text, err := json.Marshal(names)
	if err != nil {
		panic("sqlitelock: strings that JSON cannot write: " + err.Error()) // there are none
	}
	return string(text)
}

// LoadAll implements cas.Batcher: one statement for all that have a
// record.
func (s *store) LoadAll(ctx context.Context, resources []string) ([]cas.Entry, error) {
	names := jsonArray(resources)
	entries := make([]cas.Entry, len(resources))
	err := s.read(ctx, func(c *conn) error {
		clear(entries)
		err := c.query(loadAllSQL, func(row []driver.Value) error {
			i, ok := row[4].(int64)
			if !ok || i < 0 || int(i) >= len(entries) {
				return fmt.Errorf("json_each gave the key %v", row[4])
			}
			var err error
			entries[i], err = s.entry(resources[i], row)
			return err
		}, names)
		for i := range entries {
			if err == nil && entries[i].Version == 0 {
				entries[i], err = s.absent(c, resources[i])
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// SwapAll implements cas.Batcher: one transaction, so after an error none of the
// changes was made, unless it was the COMMIT that failed.
func (s *store) SwapAll(ctx context.Context, cs []cas.Change) ([]bool, error) {
	statements := make([]change, len(cs))
	for i, c := range cs {
		var err error
		if statements[i], err = statementOf(c); err != nil {
			return nil, err
		}
	}
	done := make([]bool, len(cs))
	err := s.write(ctx, func(c *conn) error {
		return s.transact(c, func() (err error) {
			for i, st := range statements {
				if done[i], err = st.apply(c); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	for i, c := range cs {
		if done[i] && c.Wake {
			s.watcher.freed(c.New.Resource, c.New.Touched)
		}
	}
	return done, nil
}
