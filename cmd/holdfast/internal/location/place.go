package location

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/redislock"
)

// choices are the parameters of URLs that choose a place for locks in a database, or the
// database, with their defaults.
var choices = []struct{ parameter, unset string }{
	{"collection", "locks"}, // mongodb
	{"index", eslock.DefaultIndex},
	{"prefix", redislock.DefaultPrefix},
	{"schema", pglock.DefaultSchema},
	{"db", ""}, // redis; the others are for postgres
	{"master_name", ""},
	{"host", ""},
	{"port", ""},
	{"dbname", ""},
	{"database", ""},
	{"service", ""},
}

// spellings are how URLs of a scheme may be written in other words.
var spellings = map[string]struct {
	scheme string // the one of the same meaning that counts
	port   string // by default; empty: none
	path   string // by default
	slash  bool   // at the end of the path, means nothing
	order  bool   // of the servers, counts
}{
	"redis":               {scheme: "redis", port: "6379", path: "/0", slash: true},
	"rediss":              {scheme: "rediss", port: "6379", path: "/0", slash: true},
	"postgres":            {scheme: "postgres", port: "5432", order: true},
	"postgresql":          {scheme: "postgres", port: "5432", order: true},
	"mongodb":             {scheme: "mongodb", port: "27017"},
	"mongodb+srv":         {scheme: "mongodb+srv"},
	"elasticsearch":       {scheme: "elasticsearch", port: "9200", slash: true},
	"opensearch":          {scheme: "elasticsearch", port: "9200", slash: true},
	"http":                {scheme: "http", port: "80", slash: true},
	"https":               {scheme: "https", port: "443", slash: true},
	"elasticsearch+https": {scheme: "elasticsearch+https", port: "9200", slash: true},
	"opensearch+https":    {scheme: "elasticsearch+https", port: "9200", slash: true},
}

// Place names the place of the locks as far as the URL tells, without secrets: the
// locks of two places do not exclude each other. To take two places for one costs a look at
// the store. To take one for two lets a shared run inside a run have the same lock again.
func (l Location) Place() string {
	if l.File != "" {
		file, err := filepath.Abs(l.File)
		if err != nil {
			return l.File
		}
		if real, err := filepath.EvalSymlinks(file); err == nil { // if the file exists
			return real
		}
		return file
	}
	u := l.parsed()
	place := l.Name()
	values := u.Query()
	if plain, ok := l.plain(u.Scheme, values); ok {
		place = plain
	}
	for _, c := range choices {
		place += "\x00" + cmp.Or(values.Get(c.parameter), c.unset)
	}
	return place
}

// plain returns the name of the store with what its URL may leave out or write otherwise.
func (l Location) plain(scheme string, values url.Values) (name string, ok bool) {
	s, ok := spellings[scheme]
	u, err := driver.ParseURL(l.Name())
	if !ok || err != nil || u.Host == "" {
		return "", false
	}
	switch {
	case values.Has("master_name"):
		s.port = "26379"
	case s.scheme == "postgres" && (os.Getenv("PGPORT") != "" || os.Getenv("PGSERVICE") != "" || values.Has("service")):
		s.port = "" // one that is left out may be any
	}
	servers := strings.Split(u.Host, ",")
	for i, server := range servers {
		h := url.URL{Host: server}
		host := strings.ToLower(h.Hostname())
		if host == "127.0.0.1" || host == "::1" {
			host = "localhost"
		}
		servers[i] = net.JoinHostPort(host, cmp.Or(h.Port(), s.port))
	}
	if !s.order {
		slices.Sort(servers)
	}
	path := u.Path
	if s.slash {
		path = strings.TrimRight(path, "/")
	}
	return s.scheme + "://" + strings.Join(servers, ",") + cmp.Or(path, s.path), true
}
