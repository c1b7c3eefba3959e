package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Update implements base.Backend: one transaction that has the write lock from its
// first statement on, so what was decided cannot be overtaken. There is no answer
// to lose, short of the end of this process, but for that of the COMMIT. ctx that
// ends while another process has the write lock leaves the change unsent.
func (s *store) Update(ctx context.Context, us []base.Update, urgent bool) error {
	if err := s.line.Enter(ctx, urgent); err != nil {
		return s.wrap(err)
	}
	var freed []change
	err := s.write(ctx, urgent, func(c *conn) error {
		freed = freed[:0]
		return s.transact(c, func() error {
			for i := range us {
				ch, err := s.decide(c, &us[i])
				if err != nil {
					return err
				}
				if ch.Wake {
					freed = append(freed, ch)
				}
			}
			return nil
		})
	}, func(c *conn) bool { return s.keeps(c, us) })
	s.line.Leave()
	if err != nil {
		return err
	}
	for _, ch := range freed {
		s.watcher.freed(ch.Record.Resource, ch.Record.Touched)
	}
	return nil
}

// change is what was decided.
type change = base.Change

// decide makes one update. Its error is one of the file, which ends the whole
// transaction; that of a damaged row is the update's own.
func (s *store) decide(c *conn, u *base.Update) (change, error) {
	e, listed, err := s.load(c, u.Resource)
	if u.Err = nil; errors.Is(err, hf.ErrDamaged) {
		u.Err = err
		return change{}, nil
	}
	if err != nil {
		return change{}, err
	}
	ch := u.Decide(e)
	var n int64
	switch ch.Action {
	case base.Put:
		n, err = put(c, ch, e.Missing, listed)
	case base.Delete:
		n, err = c.exec(deleteSQL, u.Resource)
	default:
		return change{}, nil
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows of %q were changed instead of one", n, u.Resource)
	}
	return ch, err
}

// put stores a record.
func put(c *conn, ch change, missing, listed bool) (rows int64, err error) {
	var holds driver.Value // NULL: none
	if len(ch.Record.Holds) > 0 {
		text, err := model.EncodeHolds(ch.Record.Holds)
		if err != nil {
			return 0, err
		}
		holds = string(text)
	}
	freed := int64(0)
	if ch.Wake {
		freed = int64(ch.Record.Touched)
	}
	text := updateSQL
	switch {
	case missing:
		text = insertSQL
	case holds != nil && !listed:
		text = updateListedSQL
	}
	return c.exec(text, int64(ch.Record.Touched), int64(ch.Record.Token), freed, holds, ch.Record.Resource)
}

// keeps answers an update that leaves its record as it is from a plain read, which
// needs no lock. It is for when another process has kept the write lock for a
// while: a refusal then need not wait for it.
func (s *store) keeps(c *conn, us []base.Update) bool {
	if len(us) != 1 {
		return false
	}
	e, _, err := s.load(c, us[0].Resource)
	if err != nil || s.file.check() != nil {
		return false
	}
	ch := us[0].Decide(e)
	return ch.Action == base.Keep || ch.Action == base.Confirm || ch.Courtesy
}
