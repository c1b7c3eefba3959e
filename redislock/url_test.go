package redislock

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]struct {
		addrs  string
		db     int
		check  func(*target) bool
		secure bool
	}{
		"redis://h":                    {addrs: "h:6379"},
		"redis://h/":                   {addrs: "h:6379"},
		"redis://h:7000/3":             {addrs: "h:7000", db: 3},
		"redis://[::1]":                {addrs: "[::1]:6379"},
		"redis://[::1]:7000":           {addrs: "[::1]:7000"},
		"rediss://h":                   {addrs: "h:6379", secure: true},
		"redis://h1,h2:7000,h3":        {addrs: "h1:6379 h2:7000 h3:6379"},
		"rediss://h1,h2":               {addrs: "h1:6379 h2:6379", secure: true},
		"redis://h?cluster=true":       {addrs: "h:6379", check: func(t *target) bool { return t.client.IsClusterMode }},
		"redis://u:p%40%2F@h1,h2":      {addrs: "h1:6379 h2:6379", check: func(t *target) bool { return t.client.Username == "u" && t.client.Password == "p@/" }},
		"redis://:p@h?read_timeout=7s": {addrs: "h:6379", check: func(t *target) bool { return t.client.Password == "p" && t.client.ReadTimeout == 7*time.Second }},
		"redis://u:p@s1,s2/2?master_name=main&sentinel_password=x": {addrs: "s1:26379 s2:26379", db: 2, check: func(t *target) bool {
			return t.client.MasterName == "main" && t.client.SentinelPassword == "x" && t.client.Password == "p"
		}},
		"redis://h?prefix=locks%2F&key_retention=48h&replicas=1&replica_timeout=500ms&poll=true": {addrs: "h:6379", check: func(t *target) bool {
			return t.store == Options{Prefix: "locks/", KeyRetention: 48 * time.Hour, Replicas: 1, ReplicaTimeout: 500 * time.Millisecond, Poll: true}
		}},
	} {
		u, err := driver.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseURL(u)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !slices.Equal(got.client.Addrs, strings.Fields(want.addrs)) || got.client.DB != want.db ||
			(got.client.TLSConfig != nil) != want.secure || want.check != nil && !want.check(got) {
			t.Errorf("%s: %+v %+v", text, got.client, got.store)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	drivertest.RefusesURLs(t, map[string]string{
		"redis:///0":                                  "no server",
		"redis://h:99999":                             "from 1 to 65535",
		"redis://h1,h2:0":                             "from 1 to 65535",
		"redis://u:secret@h/x":                        "database",
		"redis://u:secret@h/1/2":                      "redis URL",
		"redis://u:secret@h#part":                     "%23",
		"redis://u:secret@h?prefx=a":                  "prefx",
		"redis://u:secret@h?retention=24h":            "redis URL: unexpected option: retention; beside the driver's own there are cluster, key_retention,",
		"redis://u:secret@h?prefix=":                  `"prefix" is empty`,
		"redis://u:secret@h?prefix=a&prefix=b":        "2 times",
		"redis://u:secret@h?cluster=maybe":            "true or false",
		"redis://u:secret@h?poll=maybe":               "true or false",
		"redis://u:secret@h?replicas=some":            "a number",
		"redis://u:secret@h?replicas=-1":              "replicas",
		"redis://u:secret@h?replica_timeout=1":        "500ms",
		"redis://u:secret@h?replica_timeout=999us":    "below 1ms",
		"redis://u:secret@h?key_retention=1":          "24h",
		"redis://u:secret@h?key_retention=5s":         "retention",
		"redis://u:secret@h?read_timeout=x":           "read_timeout",
		"redis://u:secret@h1,h2/1":                    "no database 1",
		"redis://u:secret@h?sentinel_password=secret": "master_name",
		"redis://h?master_name=a&cluster=true":        "Sentinel",
		"redis://h?prefix=%zz":                        "escaped",
		"redis://u:7777/secret@h":                     "%2F",
		"redis://u:7777#secret@h":                     "%23",
		"redis://u:7777?secret@h":                     "%3F",
	})
}
