package esurl

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/eslock"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		nodes   string
		apiKey  string
		ca      string
		options eslock.Options
	}{
		"elasticsearch://h":            {nodes: "http://h:9200"},
		"opensearch://h:1/":            {nodes: "http://h:1"},
		"elasticsearch+https://h":      {nodes: "https://h:9200"},
		"opensearch+https://[::1]:443": {nodes: "https://[::1]:443"},
		"elasticsearch://[::1]":        {nodes: "http://[::1]:9200"},
		"elasticsearch://u:p%40@a:1,b,c/pre/fix/?index=x": {
			nodes: "http://u:p%40@a:1/pre/fix http://u:p%40@b:9200/pre/fix http://u:p%40@c:9200/pre/fix", options: eslock.Options{Index: "x"},
		},
		"elasticsearch://u@h": {nodes: "http://u@h:9200"},
		"elasticsearch+https://h/?api_key=aTo+Pw==&ca=/etc/ca.pem": {
			nodes: "https://h:9200", apiKey: "aTo+Pw==", ca: "/etc/ca.pem",
		},
		"elasticsearch://h/?api_key=aTo%2BPw%3D%3D": {nodes: "http://h:9200", apiKey: "aTo+Pw=="},
		"opensearch://h?index=a-b&replicas=2&wait_for_active_shards=all&old_clients=true": {
			nodes: "http://h:9200", options: eslock.Options{Index: "a-b", Replicas: 2, WaitForActiveShards: "all", OldClients: true},
		},
		"opensearch://h?replicas=0&old_clients=false": {nodes: "http://h:9200", options: eslock.Options{Replicas: -1}},
	} {
		u, err := driver.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(u)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var nodes []string
		for _, n := range got.nodes {
			nodes = append(nodes, n.String())
		}
		if strings.Join(nodes, " ") != want.nodes || got.apiKey != want.apiKey || got.ca != want.ca || !reflect.DeepEqual(got.options, want.options) {
			t.Errorf("%s: %s, %+v; want %+v", text, nodes, got, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("id:secret"))
	drivertest.RefusesURLs(t, map[string]string{
		"elasticsearch:///?index=x":                            "no host",
		"elasticsearch:h":                                      "no host",
		"elasticsearch://u:secret@h,/":                         "parsed",
		"elasticsearch://u:secret@h:0/":                        "host and port",
		"elasticsearch://u:secret@h:70000/":                    "host and port",
		"elasticsearch://:secret@h/":                           "no user",
		"elasticsearch://u:secret@h/#part":                     "%23",
		"elasticsearch://u:7777/secret@h/":                     "%2F",
		"elasticsearch://u:7777?secret@h/":                     "%3F",
		"elasticsearch://u:7777#secret@h/":                     "%23",
		"elasticsearch://u:secret@h/?index=":                   "one value",
		"elasticsearch://u:secret@h/?index=a&index=b":          "one value",
		"elasticsearch://u:secret@h/?indx=a":                   `unknown parameter "indx"`,
		"elasticsearch://h/?index=%zz":                         "escaped",
		"elasticsearch://h/?api_key=secret":                    "Base64",
		"elasticsearch://h/?api_key=c2VjcmV0":                  "Base64",
		"elasticsearch://u:p@h/?api_key=" + key:                "only one",
		"elasticsearch://h/?replicas=-1":                       "number of copies",
		"elasticsearch://h/?old_clients=perhaps":               "neither true nor false",
		"elasticsearch://u:secret@h/?ca=/ca.pem":               "+https",
		"elasticsearch+https://u:secret@h/?ca=/missing/ca.pem": "/missing/ca.pem",
		"elasticsearch+https://u:secret@h/?ca=target_test.go":  "PEM",
	}, key)
}
