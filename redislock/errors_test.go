package redislock

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// Errors that certainly do not pass by themselves are ErrUnusable, and say what to do.
// All others mean that the outcome is unknown.
func TestWrap(t *testing.T) {
	single, cluster := &Store{}, &Store{cluster: new(redis.ClusterClient)}
	for name, c := range map[string]struct {
		s        *Store
		text     string
		unusable bool
		says     string
	}{
		"no password":            {single, "NOAUTH Authentication required.", true, "requires a password"},
		"wrong password":         {single, "WRONGPASS invalid username-password pair or user is disabled.", true, "refuses user or password"},
		"wrong password, old":    {single, "ERR invalid password", true, "refuses the password"},
		"password for nothing":   {single, "ERR AUTH <password> called without any password configured for the default user.", true, "no password set"},
		"it cannot authenticate": {single, "ERR AUTH failed: the upstream does not answer", false, "upstream"},
		"right":                  {single, "NOPERM User ada has no permissions to run the 'evalsha' command", true, "docs/redis.md"},
		"right, in a script":     {single, "ERR The user executing the script can't run this command or subcommand", true, "docs/redis.md"},
		"one node of a Cluster":  {single, "MOVED 1234 10.0.0.1:6379", true, "cluster=true"},
		"slots move":             {cluster, "MOVED 1234 10.0.0.1:6379", false, "MOVED"},
		"not a Cluster":          {cluster, "ERR This instance has cluster support disabled", true, "without ?cluster=true"},
		"database":               {single, "ERR DB index is out of range", true, "no database"},
		"memory":                 {single, "OOM command not allowed when used memory > 'maxmemory'.", false, "maxmemory"},
		"snapshot":               {single, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", false, "check its disk"},
		"starts":                 {single, "LOADING Redis is loading the dataset in memory", false, "LOADING"},
		"replica":                {single, "READONLY You can't write against a read only replica.", false, "READONLY"},
		"replica without master": {single, "MASTERDOWN Link with MASTER is down", false, "MASTERDOWN"},
		"Cluster without slots":  {cluster, "CLUSTERDOWN The cluster is down", false, "CLUSTERDOWN"},
		"too few replicas":       {single, "NOREPLICAS Not enough good replicas to write.", false, "NOREPLICAS"},
		"a script runs":          {single, "BUSY Redis is busy running a script.", false, "BUSY"},
		"too many clients":       {single, "ERR max number of clients reached", false, "clients"},
		"Envoy":                  {single, "ERR upstream failure", false, "upstream"},
		"Envoy, no host":         {single, "no upstream host", false, "host"},
	} {
		err := c.s.wrap(errors.New(c.text))
		if errors.Is(err, driver.ErrUnusable) != c.unusable || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want unusable: %v, and %q", name, err, c.unusable, c.says)
		}
	}
}
