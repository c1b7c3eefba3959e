package mongolock

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct{ url, uri, database, collection string }{
		{"mongodb://h/app", "mongodb://h/app", "app", "locks"},
		{"mongodb://h:27017/app?collection=mine", "mongodb://h:27017/app", "app", "mine"},
		{"mongodb://u:p%40@h/app?w=1&collection=a%2Eb&tls=true", "mongodb://u:p%40@h/app?w=1&tls=true", "app", "a.b"},
		{
			"mongodb://h/app?readPreferenceTags=a:b&readPreferenceTags=&readPreference=secondary",
			"mongodb://h/app?readPreferenceTags=a:b&readPreferenceTags=&readPreference=secondary", "app", "locks",
		},
		{"mongodb://u:p@h1:27017,h2:27018,h3/app?collection=x", "mongodb://u:p@h1:27017,h2:27018,h3/app", "app", "x"},
		{"mongodb://h/a%40b?collection=c%40d", "mongodb://h/a%40b", "a@b", "c@d"},
		{"mongodb+srv://u:p@cluster.example.com/app?collection=x", "mongodb+srv://u:p@cluster.example.com/app", "app", "x"},
	} {
		u, err := driver.ParseURL(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseURL(u)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got.uri != c.uri || got.database != c.database || got.collection != c.collection {
			t.Errorf("%s: %+v, want %+v", c.url, got, c)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	drivertest.RefusesURLs(t, map[string]string{
		"mongodb:///app":                                     "no server",
		"mongodb://u:secret@h":                               "no database",
		"mongodb://u:secret@h/":                              "no database",
		"mongodb://u:secret@h/app#part":                      "%23",
		"mongodb://u:secret@h/app?collection=":               "one collection",
		"mongodb://u:secret@h/app?collection=a&collection=b": "one collection",
		"mongodb://u:secret@h/app?colection=a":               `unknown parameter "colection"`,
		"mongodb://u:secret@h/app?connectTimeoutMS=secret":   "mongodb URL",
		"mongodb://u:secret@h/app?authMechanism=secret":      "mongodb URL",
		"mongodb://h/app?collection=%zz":                     "escaped",
		"mongodb://u:secret@h/app?layout=flag":               "mongolock/compat/mongodoc",
		"mongodb://u:secret@h/app?timeout=30s":               `unknown parameter "timeout"`,
		"mongodb://u:7777/secret@h/app":                      "%2F",
		"mongodb://u:7777?secret@h/app":                      "%3F",
		"mongodb://u:7777/app?secret@h/app":                  "%40",
		"mongodb://u:7777#secret@h/app":                      "%23",
	})
}
