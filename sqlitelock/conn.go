package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"modernc.org/sqlite"
)

// conn is one connection with its prepared statements. One goroutine at a time
// uses it. It goes past database/sql, whose pool and conversions cost as much as
// a fifth of a statement here (measured) and whose pool knows no order.
//
// Statements do not take the caller's context: the SQLite driver would start a
// goroutine for each, and an interrupted change would be of unknown outcome. They
// are short; what can last, waiting, is done between them.
type conn struct {
	raw   driver.Conn
	file  *file
	stmts map[string]statement
	args  []driver.NamedValue // reused
}

// statement is what the driver's statements are.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func dial(dsn string, f *file) (*conn, error) {
	raw, err := new(sqlite.Driver).Open(dsn)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, file: f, stmts: make(map[string]statement)}, nil
}

// close closes the connection, unless its file is no longer the one that the name
// stands for: SQLite would delete the log of that name, which is another's now.
func (c *conn) close() error {
	if c.file.isAnother() {
		return nil
	}
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// script executes statements that are used once. They take no values.
func (c *conn) script(text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

func (c *conn) prepared(text string) (statement, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	s, err := c.raw.Prepare(text)
	if err != nil {
		return nil, err
	}
	c.stmts[text] = s.(statement)
	return c.stmts[text], nil
}

func (c *conn) bind(values []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, v := range values {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args
}

// exec returns how many rows were changed.
func (c *conn) exec(text string, values ...driver.Value) (int64, error) {
	s, err := c.prepared(text)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.Background(), c.bind(values))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query calls each with every row, which is valid only during the call.
func (c *conn) query(text string, each func(row []driver.Value) error, values ...driver.Value) (err error) {
	s, err := c.prepared(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.bind(values))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

// integer returns the one number that a statement yields.
func (c *conn) integer(text string) (n int64, err error) {
	err = c.query(text, func(row []driver.Value) error {
		var ok bool
		if n, ok = row[0].(int64); !ok {
			return fmt.Errorf("%s: %v is no integer", text, row[0])
		}
		return nil
	})
	return n, err
}
