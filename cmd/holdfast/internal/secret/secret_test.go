package secret

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"open redis://:secret@host/0 failed":       "open redis://***@host/0 failed",
		"redis://user:secret@host/0":               "redis://***@host/0",
		"postgres://u:sec@ret/secret@host":         "postgres://***@host",
		`got "etcd+tls://u:secret@a,b"`:            `got "etcd+tls://***@a,b"`,
		"sqlite:///var/lib/a.db and mail a@host":   "sqlite:///var/lib/a.db and mail a@host",
		"redis://host/0, redis://u:secret@other/0": "redis://host/0, redis://***@other/0",
		`got "redis://u:my secret@host/0" of a@b`:  `got "redis://***@host/0" of a@b`,
		`got "redis://u:\"secret@h", twice`:        `got "redis://***@h", twice`,
		"postgres://h/d?user=u&sslPassword=secret": "postgres://h/d?user=u&sslPassword=***",
		`got "https://h/?api_key=secret&x=y"`:      `got "https://h/?api_key=***&x=y"`,
		"https://h/?token=secret&token_file=/a/b":  "https://h/?token=***&token_file=/a/b",
	} {
		if got := Redact(text); got != want {
			t.Errorf("redact(%q) = %s, want %s", text, got, want)
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
		"https://host?token_file=/etc/holdfast/token":                    "",
		"redis://user:pass@host:port/0":                                  "", // cannot be parsed
	} {
		if got := strings.Join(Passwords(storeURL), " "); got != want {
			t.Errorf("%s: got %q, want %q", storeURL, got, want)
		}
	}
}
