package driver

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
)

var errOpened = errors.New("opened")

func opened(context.Context, *url.URL) (Store, error) { return nil, errOpened }

func init() {
	Register("drivertest", opened)
	Register("drivertest-other", opened)
}

func TestOpen(t *testing.T) {
	for storeURL, c := range map[string]struct {
		is   error
		says string
	}{
		"drivertest-other:":      {errOpened, ""},
		"drivertest-other://x/y": {errOpened, ""},
		"DRIVERTEST-OTHER:x":     {errOpened, ""},
		"nosuch://x":             {ErrInvalid, `"nosuch"; linked in: drivertest, drivertest-other`},
		"sqlite:x":               {ErrInvalid, `import _ "github.com/holdfast-go/holdfast/sqlitelock"`},
		"opensearch+https://x":   {ErrInvalid, `import _ "github.com/holdfast-go/holdfast/eslock/esurl"`},
		"postgre://u:secret@h/x": {ErrInvalid, `"postgre"; linked in: drivertest, drivertest-other`},
		"":                       {ErrInvalid, "sqlite:PATH"},
		"x":                      {ErrInvalid, "linked in: drivertest, drivertest-other"},
		"./l.db":                 {ErrInvalid, `write sqlite:./l.db and import _ "github.com/holdfast-go/holdfast/sqlitelock"`},
		"../l":                   {ErrInvalid, "write sqlite:../l "},
		"~/l":                    {ErrInvalid, "write sqlite:~/l "},
		"l.db":                   {ErrInvalid, "write sqlite:l.db "},
		"a/l.sqlite":             {ErrInvalid, "write sqlite:a/l.sqlite "},
		"/var/lib/l.db":          {ErrInvalid, "write sqlite:///var/lib/l.db "},
		`C:\dir\l.db`:            {ErrInvalid, "write sqlite:///C:/dir/l.db "},
		`.\l.db`:                 {ErrInvalid, "write sqlite:./l.db "},
		"c:/l":                   {ErrInvalid, "write sqlite:///c:/l "},
		"a:b.db":                 {ErrInvalid, "write sqlite:./a:b.db "},
		"a:b/c.db":               {ErrInvalid, "write sqlite:./a:b/c.db "},
		"file:l.db":              {ErrInvalid, "write sqlite:l.db "},
		"file:///var/l":          {ErrInvalid, "write sqlite:///var/l "},
		// These may contain a password.
		"secret":                             {ErrInvalid, "write sqlite:PATH "},
		"secret@h/l.db":                      {ErrInvalid, "write sqlite:PATH "},
		"//u:secret@h/l.db":                  {ErrInvalid, "write sqlite:PATH "},
		"//secret/l.db":                      {ErrInvalid, "write sqlite:PATH "},
		"host=h password=secret dbname=l.db": {ErrInvalid, "write sqlite:PATH "},
		"./l.db?password=secret":             {ErrInvalid, "write sqlite:PATH "},
		"file:secret":                        {ErrInvalid, "write sqlite:PATH "},
		"c:secret":                           {ErrInvalid, "write sqlite:PATH "},
		"/" + strings.Repeat("x", 100):       {ErrInvalid, "write sqlite:PATH "},
		strings.Repeat("x", 100) + "://h":    {ErrInvalid, `x"…; linked in`},
		"://x":                               {ErrInvalid, "cannot be parsed"},
		"drivertest://%zz":                   {ErrInvalid, "cannot be parsed"},
	} {
		t.Run(storeURL, func(t *testing.T) {
			_, err := Open(t.Context(), storeURL)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v that says %q", err, c.is, c.says)
			}
			if strings.Contains(err.Error(), "secret") || len(err.Error()) > 300 {
				t.Errorf("it says too much: %v", err)
			}
		})
	}
}

func TestParseURL(t *testing.T) {
	for text, host := range map[string]string{
		"s://h/p":                      "h",
		"s://u:p@h1:1,h2:2,h3/p?a=b,c": "h1:1,h2:2,h3",
		"s://u:p,q@[::1]:1,h2?a=b":     "[::1]:1,h2",
		"s://h1:27017,h2:27018":        "h1:27017,h2:27018",
		"s:///p,q":                     "",
		"s:opaque,x":                   "",
		"s://u:p@h1,h2:x/p":            "error",
		"s://u:p@h1,/p":                "error",
		"s://u:p%zz@h1,h2/p":           "error",
		"://h1,h2":                     "error",
		"s://u:p@h1,h2/p%zz":           "error",
	} {
		u, err := ParseURL(text)
		switch {
		case err != nil:
			if host != "error" || !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "h1") {
				t.Errorf("%s: error %v", text, err)
			}
		case u.Host != host || u.String() != text:
			t.Errorf("%s: %v with host %q, want %q", text, u, u.Host, host)
		}
	}
}

func TestRegister(t *testing.T) {
	if got := Schemes(); !slices.Equal(got, []string{"drivertest", "drivertest-other"}) {
		t.Errorf("schemes are %q", got)
	}
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "drivertest") {
			t.Errorf("registering a scheme twice panicked with %q; want it to name the scheme", p)
		}
	}()
	Register("drivertest", opened)
}

// FuzzOpen puts a password into a URL at any place and looks for it in the error.
func FuzzOpen(f *testing.F) {
	// a scheme is shown in lower case, so the password cannot be one
	const password = "hunTer2-Xyzzy"
	for _, parts := range [][2]string{
		{"drivertest://user:", "@host/db"}, {"nosuch://user:", "@host/db?x=1#y"}, {"redis://:", "@host"},
		{"user:", "@host"}, {"", ""}, {"", "://host"}, {"drivertest://%zz:", "@host"}, {"drivertest://host/?password=", ""},
		{"drivertest://user:%25", "\x00@host"}, {" drivertest://u:", "@[::1"}, {"drivertest:u:", "@host"}, {"://u:", "@h"},
	} {
		f.Add(parts[0], parts[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		storeURL := before + password + after
		_, err := Open(t.Context(), storeURL)
		if !errors.Is(err, errOpened) && !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: error %v", storeURL, err)
		}
		if strings.Contains(err.Error(), password) && filePath(storeURL) == "PATH" { // otherwise the error has a file's name
			t.Errorf("the error shows the password: %v", err)
		}
	})
}
