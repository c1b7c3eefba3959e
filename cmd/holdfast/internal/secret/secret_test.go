package secret

import "testing"

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

func TestHasPassword(t *testing.T) {
	for storeURL, want := range map[string]bool{
		"local":                                 false,
		"sqlite:///a/b.db?synchronous=full":     false,
		"redis://user@host/0":                   false,
		"redis://user:@host/0":                  false,
		"redis://user:hunter2@host/0":           true,
		"redis://:p%2Fq@host/0":                 true,
		"mongodb://u:pw@one:27017,two:27018/db": true,
		"mongodb://h/db?authMechanismProperties=AWS_SESSION_TOKEN:a%2Fb": true,
		"postgres://host/db?PASSWORD=a%20b&x=y":                          true,
		"postgres://host/db?sslpassword=&user=ada":                       false,
		"https://host/?apikey=k&auth_token=t":                            true,
		"https://host?token_file=/etc/holdfast/token":                    false,
		"redis://user:pass@host:port/0":                                  false, // cannot be parsed
	} {
		if got := HasPassword(storeURL); got != want {
			t.Errorf("%s: got %v", storeURL, got)
		}
	}
}
