package engines

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// outcome is a testing.TB that records how the test would have ended.
type outcome struct {
	testing.TB
	said string
}

func (o *outcome) Helper()                        {}
func (o *outcome) Skipf(format string, v ...any)  { o.said = "SKIP " + fmt.Sprintf(format, v...) }
func (o *outcome) Fatalf(format string, v ...any) { o.said = "FAIL " + fmt.Sprintf(format, v...) }

func TestMissingTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := startMongoDB(t.Context(), 0)
	for required, want := range map[string]string{
		"":             "SKIP java is missing; on Debian: apt-get install default-jdk-headless maven; or set HOLDFAST_TEST_MONGODB_URL to the URL of a server",
		"race,mongo":   "SKIP ",
		"race,mongodb": "FAIL mongodb: java is missing",
	} {
		t.Setenv("HOLDFAST_REQUIRE", required)
		o := &outcome{TB: t}
		mongoDB.need(o, err)
		if !strings.HasPrefix(o.said, want) {
			t.Errorf("HOLDFAST_REQUIRE=%s: %q, want %q", required, o.said, want)
		}
	}
}

func TestMissingPackages(t *testing.T) {
	t.Setenv("HOLDFAST_REQUIRE", "")
	t.Setenv("PATH", t.TempDir())
	_, other := native{folder: t.TempDir()}.start(t.Context(), 0)
	for want, err := range map[string]error{
		"SKIP redis-server is missing, and there is no apt-get to download Debian's; or set HOLDFAST_TEST_REDIS_URL": unpack(t.Context(), "redis-server", t.TempDir()),
		"SKIP mvn is missing": mavenCopy(t.Context(), t.TempDir(), "group:artifact:1"),
		"SKIP sh is missing":  other,
	} {
		o := &outcome{TB: t}
		redisKind.need(o, err)
		if !strings.HasPrefix(o.said, want) {
			t.Errorf("%q, want %q", o.said, want)
		}
	}
}

// An error other than a missing server never skips a test.
func TestOtherErrorsFail(t *testing.T) {
	t.Setenv("HOLDFAST_REQUIRE", "")
	o := &outcome{TB: t}
	mongoDB.need(o, errors.New("it broke"))
	if o.said != "FAIL mongodb: it broke" {
		t.Errorf("got %q", o.said)
	}
}

func TestOwnServerIsUsed(t *testing.T) {
	for url, emulated := range map[string]bool{
		"mongodb://h/?replicaSet=rs":                                   false,
		"mongodb://h/?directConnection=true&appName=holdfast-emulator": true,
	} {
		t.Setenv("HOLDFAST_TEST_MONGODB_URL", url)
		if got, want := MongoDB(t), (Engine{Kind: "mongodb", URL: url, Emulated: emulated}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestHashChangesWithTheSources(t *testing.T) {
	seen := make(map[string]bool)
	one := fstest.MapFS{"a": {Data: []byte("1")}, "b": {Data: []byte("2")}}
	for _, p := range []project{
		{files: []fs.FS{one}},
		{files: []fs.FS{fstest.MapFS{"a": {Data: []byte("1")}, "b": {Data: []byte("3")}}}},
		{files: []fs.FS{fstest.MapFS{"a": {Data: []byte("1")}, "c": {Data: []byte("2")}}}},
		{files: []fs.FS{fstest.MapFS{"a": {Data: []byte("1b 1\n2")}}}},
		{files: []fs.FS{one, fstest.MapFS{"c": {}}}},
		{files: []fs.FS{one}, arguments: []string{"-Dversion=2"}},
	} {
		sum, err := p.hash()
		if err != nil || seen[sum] {
			t.Errorf("%q again (%v)", sum, err)
		}
		seen[sum] = true
	}
}
