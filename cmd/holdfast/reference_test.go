package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func TestDereference(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"store":     "redis://u:hunter2@host/0\n",
		"bare":      "local",
		"crlf":      "local\r\n",
		"empty":     "",
		"blank":     "\nlocal\n",
		"two":       "local\nredis://u:hunter2@host/0\n",
		"env":       "env:LOCKS\n",
		"file":      "FILE:hunter2\n",
		"database":  "SQLite format 3\x00\x10\x00\x01\x01\n\n",
		"huge":      strings.Repeat("hunter2", maxStoreFile),
		"with @ it": "sqlite:///with@it\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"LOCKS": "redis://u:hunter2@host/0", "LOCAL": "local", "EMPTY": "", "AGAIN": "env:hunter2", "AFILE": "file:hunter2",
	} {
		t.Setenv(name, value)
	}
	for named, want := range map[string]string{
		"local":                       "local",
		"sqlite:env:x":                "sqlite:env:x",
		"env:LOCKS":                   "redis://u:hunter2@host/0",
		"ENV:LOCAL":                   "local",
		"file:store":                  "redis://u:hunter2@host/0",
		"file:" + dir + "/store":      "redis://u:hunter2@host/0",
		"file://" + dir + "/store":    "redis://u:hunter2@host/0",
		"file:bare":                   "local",
		"file:crlf":                   "local",
		"file:with @ it":              "sqlite:///with@it",
		"env:":                        "! after env: comes the name of a variable",
		"env:redis://u:hunter2@h/0":   "! after env: comes the name of a variable",
		"env:EMPTY":                   "! the variable EMPTY has no URL",
		"env:NO_SUCH_VARIABLE":        "! the variable NO_SUCH_VARIABLE has no URL",
		"env:AGAIN":                   "! the variable AGAIN has another env:",
		"env:AFILE":                   "! the variable AFILE has another file:",
		"file:":                       "! after file: comes the path",
		"file:none":                   `! the file "none", which has the store's URL, cannot be read: no such file or directory`,
		"file:.":                      `! the file ".", which has the store's URL, cannot be read: is a directory`,
		"file:empty":                  `! the file "empty" is empty`,
		"file:blank":                  `! the file "blank" has more than one line`,
		"file:two":                    `! the file "two" has more than one line`,
		"file:huge":                   `! the file "huge" has more than one line`,
		"file:env":                    "! the file env has another env:",
		"file:file":                   "! the file file has another file:",
		"file:database":               "! the file \"database\" is a SQLite database, not the URL of one; name it as sqlite:database",
		"file:redis://u:hunter2@h/0":  `! the file "redis://u:hunter2@h/0", which`, // say redacts it
		"file:" + dir + "/store/none": "! the file ",
	} {
		got, err := dereference(named)
		if problem, wrong := strings.CutPrefix(want, "! "); wrong {
			exit, ok := errors.AsType[*exitError](err)
			if !ok || exit.status != statusUsage || !strings.HasPrefix(exit.text, problem) {
				t.Errorf("%s: got %q, %v; want %s", named, got, err, problem)
			} else if strings.Contains(redact(exit.text), "hunter2") {
				t.Errorf("%s: %s repeats the password", named, exit.text)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", named, got, err, want)
		}
	}
	// No store may be meant by the names that are forms.
	for _, form := range []string{"env", "file", "local"} {
		if slices.Contains(driver.Schemes(), form) {
			t.Errorf("%s is a store", form)
		}
	}
}

func TestPasswords(t *testing.T) {
	for storeURL, want := range map[string]string{
		"local":                                 "",
		"sqlite:///a/b.db?synchronous=full":     "",
		"redis://host/0":                        "",
		"redis://user@host/0":                   "",
		"redis://user:@host/0":                  "",
		"redis://user:hunter2@host/0":           "hunter2 hunter2",
		"redis://:p%2Fq@host/0":                 "p/q p%2Fq",
		"mongodb://u:pw@one,two/db":             "pw pw",
		"mongodb://u:pw@one:27017,two:27018/db": "pw pw",
		"mongodb://h/db?authMechanismProperties=AWS_SESSION_TOKEN:a%2Fb": "AWS_SESSION_TOKEN:a%2Fb AWS_SESSION_TOKEN:a/b",
		"postgres://host/db?PASSWORD=a%20b&x=y":                          "a%20b a b",
		"postgres://host/db?sslpassword=&user=ada":                       "",
		"https://host/?apikey=k&auth_token=t":                            "k k t t",
		"redis://user:pass@host:port/0":                                  "", // cannot be parsed
	} {
		if got := strings.Join(passwords(storeURL), " "); got != want {
			t.Errorf("%s: got %q, want %q", storeURL, got, want)
		}
	}
}

// No part of a password is said, wherever it stands in the URL and whatever a
// store repeats of it.
func TestNoPasswordIsSaid(t *testing.T) {
	for _, storeURL := range []string{
		"store://user:hunter2@host/0",
		"store://user:hunter2%2F7777@host/0",
		"store://user:hunter2@7777@host/0",
		"store://user:7777/hunter2@host/0",
		"store://user:7777?hunter2@host/0",
		"store://user:7777#hunter2@host/0",
		"store://user:hunter2/7777@host/0",
		"store://user:hunter2 7777@host/0",
		"store://user:hunter2\"7777@host/0",
		"store://user:hunter2%@host/0",
		"store://user:hunter2\n7777@host/0",
		"store://host/0?password=hunter2&api_key=7777",
		"store://user:hunter2",
		"store:user:hunter2@host",
		"store:/user:7777@hunter2",
		"user:hunter2@host",
		"sqlite://user:hunter2@host/x.db",
		"sqlite://user:hunter2@/x.db",
		"sqlite:///x.db?password=hunter2",
		"memory://user:hunter2@host",
	} {
		var said []error
		l, err := locate(storeURL)
		if err == nil {
			_, err = l.open(t.Context())
			u, _ := url.Parse(storeURL)
			password, _ := u.User.Password()
			said = append(said,
				l.failure(errors.New("no answer")),
				l.failure(errors.New("cannot log in as "+u.User.String())),
				l.failure(fmt.Errorf("wrong password %q; parameters %s", password, u.RawQuery)))
		}
		if err == nil {
			t.Errorf("%q was opened", storeURL)
			continue
		}
		for _, err := range append(said, err) {
			if text := redact(err.Error()); strings.Contains(text, "hunter2") || strings.Contains(text, "7777") {
				t.Errorf("%q: said was %s", storeURL, text)
			}
		}
	}
}
