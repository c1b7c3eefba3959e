package location

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/pglock"
)

// Schema returns the SQL that creates what a store in PostgreSQL needs. It connects to nothing.
func (l Location) Schema() (string, error) {
	u := l.parsed()
	if !strings.HasPrefix(u.Scheme, "postgres") {
		return "", exit.Usagef("only a store in PostgreSQL has SQL to print; what others create, and the rights they need, is in their documentation")
	}
	// A store needs a server and a database, but no SQL has their names.
	u.Host = cmp.Or(u.Host, "localhost")
	u.Path = "/" + cmp.Or(strings.Trim(u.Path, "/"), "any")
	ended, end := context.WithCancel(context.Background())
	end()
	_, err := driver.Open(ended, u.String()) // with an ended context it only reads the URL
	text := ""
	if !errors.Is(err, driver.ErrInvalid) {
		text, err = pglock.Schema(cmp.Or(u.Query().Get("schema"), "holdfast"))
	}
	if err != nil {
		return "", l.Failure(fmt.Errorf("location: %w", err))
	}
	return text, nil
}
