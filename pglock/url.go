package pglock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storeurl"
)

// connectTimeout bounds a connection attempt if the URL does not set a time-out.
const connectTimeout = 10 * time.Second

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		driver.Register(scheme, func(ctx context.Context, u *url.URL) (driver.Store, error) { return open(ctx, u) })
	}
}

// open connects to nothing yet.
func open(ctx context.Context, u *url.URL) (*Store, error) {
	t, err := parseURL(u)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	connect := t.settings.connect
	if connect.ConnectTimeout == 0 {
		connect.ConnectTimeout = connectTimeout
	}
	if _, named := connect.RuntimeParams["application_name"]; !named {
		connect.RuntimeParams["application_name"] = "holdfast"
	}
	pool, err := dial(t.settings)
	if err != nil {
		return nil, invalidURL("%s", t.hide(err))
	}
	s := newStore(pool, t.settings.prepares, &Options{Schema: t.schema})
	s.owned = true
	return s, nil
}

// target is a parsed URL.
type target struct {
	settings settings
	schema   string
	said     *url.URL // the URL, whose secrets no error may repeat
}

func invalidURL(format string, args ...any) error {
	return fmt.Errorf("%w: postgres URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}

// parseURL takes the schema out of the URL and leaves all else to pgx.
func parseURL(u *url.URL) (t target, err error) {
	values, err := storeurl.Parameters(u)
	switch {
	case err != nil:
		return t, invalidURL("%v", err)
	case u.Host == "" && values.Get("host") == "":
		return t, invalidURL("it names no server: write postgres://HOST/DATABASE")
	case strings.TrimPrefix(u.Path, "/") == "" && values.Get("dbname") == "" && values.Get("database") == "":
		return t, invalidURL("it names no database: write postgres://HOST/DATABASE")
	}
	t.schema = DefaultSchema
	if named, ok := values["schema"]; ok {
		if len(named) != 1 || named[0] == "" {
			return t, invalidURL("parameter \"schema\" must name one schema")
		}
		t.schema = named[0]
	}
	if err := validSchema(t.schema); err != nil {
		return t, err
	}
	t.said = u
	if t.settings, err = parse(storeurl.Without(u, "schema")); err != nil {
		return t, invalidURL("%s", t.hide(err))
	}
	return t, nil
}

// hide returns the text of an error of pgx without the parts that repeat the URL.
func (t target) hide(err error) string {
	text := err.Error()
	if strings.HasPrefix(text, "cannot parse `") {
		if cause := errors.Unwrap(err); cause != nil {
			text = cause.Error()
		} else if _, after, ok := strings.Cut(text, "`: "); ok {
			text = after
		}
	}
	return storeurl.Hide(text, t.said)
}
