package location

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// Schema says nothing of a store that its own URL rules out.
func TestSchemaOfInvalidURLs(t *testing.T) {
	t.Chdir(t.TempDir())
	for named, want := range map[string]string{
		"./a.db":                                       "",
		"sqlite:x/a.db?bogus=1":                        "bogus",
		"mongodb://127.0.0.1:1/app":                    "",
		"mongodb://127.0.0.1:1/app?bogus=1":            "bogus",
		"mongodb://127.0.0.1:1/app?layout=bogus":       "layout",
		"mongodb://127.0.0.1:1/":                       "",
		"mongodb+srv://nosuch.invalid/app":             "",
		"mongodb+srv://nosuch.invalid/app?bogus=1":     "bogus",
		"postgres://127.0.0.1:1/app?bogus=1":           "", // a setting of the server's, perhaps
		"postgres://127.0.0.1:1/app?schema=a&schema=b": "must name one schema",
		"postgres://127.0.0.1:1/app?pool_max_conns=x":  "invalid syntax",
		"postgresql://127.0.0.1:1/":                    "",
		"elasticsearch://127.0.0.1:1":                  "",
		"elasticsearch://127.0.0.1:1/?bogus=1":         "bogus",
		"opensearch+https://127.0.0.1:1/?index=":       "must have one value",
		"postgres:///?schema=mine":                     "",
		"redis:":                                       "",
		"redis://127.0.0.1:1/0":                        "",
		"redis://127.0.0.1:1/0?bogus=1":                "bogus",
		"rediss://127.0.0.1:1/0?key_retention=soon":    "key_retention",
		"https://127.0.0.1:1":                          "",
		"https://127.0.0.1:1/?bogus=1":                 "bogus",
		"unix:///run/h.sock?bogus=1":                   "bogus",
	} {
		l, err := Locate(named)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := l.Schema()
		e, refused := errors.AsType[*exit.Error](err)
		if refused != (want != "") || (text == "") != refused || refused && (e.Status != exit.Store || !strings.Contains(e.Text, want)) {
			t.Errorf("%s: %q, error %v", named, text, err)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("%v: there are files %v", err, files)
	}
}

// The text is that of the URL's parameters.
func TestSchemaTexts(t *testing.T) {
	for named, want := range map[string]string{
		"mongodb://h/app":                     "\ndb.locks.getIndexes()\n",
		"mongodb://h/app?collection=my.locks": `db.getCollection("my.locks").getIndexes()`,
		"mongodb://h/app?collection=my-locks": `db.getCollection("my-locks").getIndexes()`,
		"mongodb://h/app?collection=1locks":   `db.getCollection("1locks").getIndexes()`,
		"mongodb://h/app?layout=ttl":          "collection locks is that of other programs",
		"mongodb://h/app?layout=flag":         "creates no index",
		"mongodb://h/app?layout=value":        "readWrite",
		"sqlite:x/a.db?mode=0660":             "unless mode= lets others use it",
		"sqlite:x/a.db":                       "creates the folder if it is missing",
	} {
		l := locate(t, named)
		text, err := l.Schema()
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: error %v, %s", named, err, text)
		}
		if strings.Contains(named, "layout=") && strings.Contains(text, "index on") {
			t.Errorf("%s: says that it makes indexes: %s", named, text)
		}
	}
}
