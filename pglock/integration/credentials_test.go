package pglock_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/strange"
)

// The secret of these tests, with all that is escaped in some way somewhere.
const password = `pa$$ w/rd:+&=%@"é`

// Whatever is wrong with a server or its URL, no error and no log repeats what the
// URL has of secrets.
func TestSecretsStaySecret(t *testing.T) {
	server := engines.NewPostgres(t)
	withPassword, err := url.Parse(server.Role(t, "ada", password))
	if err != nil {
		t.Fatal(err)
	}
	closed, http, echo := strange.Closed(t), strange.HTTP(t), strange.Echo(t)
	n := proxy.New(t)
	n.Set(proxy.CutReplies)
	user := url.UserPassword("eve", password).String()
	host := withPassword.Host
	for name, address := range map[string]string{
		"closed at once":   "postgres://" + user + "@" + closed + "/postgres?sslmode=disable",
		"port closed":      "postgres://" + user + "@127.0.0.1:1/postgres",
		"another protocol": "postgres://" + user + "@" + http + "/postgres",
		"echo":             "postgres://" + user + "@" + echo + "/postgres?sslmode=disable",
		"replies cut":      "postgres://" + user + "@" + n.Address(host) + "/postgres?sslmode=disable",
		"no such user":     "postgres://" + user + "@" + host + "/postgres?sslmode=disable",
		"no TLS there":     "postgres://" + user + "@" + host + "/postgres?sslmode=require",
		"no such database": "postgres://" + url.UserPassword("ada", password).String() + "@" + host + "/nowhere?sslmode=disable",
		"no such setting":  "postgres://" + url.UserPassword("ada", password).String() + "@" + host + "/postgres?sslmode=disable&shema=x",
		"no such host":     "postgres://" + user + "@holdfast.invalid/postgres",
		"not escaped":      "postgres://eve:" + password + "@" + host + "/postgres",
		"badly escaped":    "postgres://eve:%zz" + url.PathEscape(password) + "@" + host + "/postgres",
		"no path":          "postgres://" + user + "@" + host,
		"bad port":         "postgres://" + user + "@h:x/postgres",
		"bad number":       "postgres://" + user + "@h/postgres?pool_max_conns=many",
		"bad mode":         "postgres://" + user + "@h/postgres?sslmode=no",
		"as a parameter":   "postgres://h/postgres?sslmode=no&password=" + url.QueryEscape(password),
		"of a key":         "postgres://h/postgres?sslmode=require&sslcert=nowhere&sslkey=nowhere&sslpassword=" + url.QueryEscape(password),
	} {
		t.Run(name, func(t *testing.T) {
			err := strange.Refuses(t, address, password)
			switch name {
			case "no such database":
				mustBeUnusable(t, err, "nowhere")
			case "no such user":
				mustBeUnusable(t, err, "eve")
			case "no such setting":
				mustBeUnusable(t, err, `"shema"`)
			case "port closed", "closed at once", "no such host":
				faults.MustBeUnknown(t, err)
			}
		})
	}
}

// A wrong password is ErrUnusable; the right one works.
func TestPassword(t *testing.T) {
	server := engines.NewPostgres(t)
	right := server.Role(t, "ada", password)
	u, err := url.Parse(right)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("ada", "wrong")
	_, err = holdfast.Open(t.Context(), u.String(), nil)
	mustBeUnusable(t, err, "refuses the user")
	_, err = holdfast.Open(t.Context(), right, nil)
	mustBeUnusable(t, err, "holdfast schema 'postgres:///?schema=") // which ada may not create
	postgresRun(t, server.URL, "GRANT CREATE ON DATABASE postgres TO ada")
	c, err := holdfast.Open(t.Context(), right, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Lock(t.Context(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Unlock(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
}
