package pglock

import (
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A URL means what it means to pgxpool.
func TestParseAsPgxpool(t *testing.T) {
	for _, query := range []string{
		"",
		"pool_max_conns=7",
		"pool_max_conns=2147483647&pool_min_conns=3&pool_min_idle_conns=2",
		"pool_min_conns=-1",
		"pool_max_conn_lifetime=1h30m&pool_max_conn_lifetime_jitter=5m",
		"pool_max_conn_lifetime=0s&pool_max_conn_idle_time=1ms",
		"pool_health_check_period=3s&pool_ping_timeout=4s",
		"default_query_exec_mode=cache_statement",
		"default_query_exec_mode=cache_describe",
		"default_query_exec_mode=describe_exec",
		"default_query_exec_mode=exec",
		"default_query_exec_mode=simple_protocol&description_cache_capacity=5",
		"statement_cache_capacity=0",
		"statement_cache_capacity=-1",
		"statement_cache_capacity=1&application_name=mine&search_path=x&sslmode=disable",
		"connect_timeout=3&target_session_attrs=read-write",

		// Refused.
		"pool_max_conns=0", "pool_max_conns=2147483648", "pool_max_conns=", "pool_max_conns=x", "pool_min_conns=x", "pool_min_idle_conns=1.5",
		"pool_max_conn_lifetime=1", "pool_max_conn_lifetime_jitter=x", "pool_max_conn_idle_time=", "pool_health_check_period=x", "pool_ping_timeout=x",
		"default_query_exec_mode=", "default_query_exec_mode=CACHE_STATEMENT", "statement_cache_capacity=x", "description_cache_capacity=x",
	} {
		text := "postgres://u@h/app?" + query
		want, wrong := pgxpool.ParseConfig(text)
		got, err := parse(text)
		if (err != nil) != (wrong != nil) {
			t.Errorf("%s: error %v, pgx's is %v", query, err, wrong)
		}
		if err != nil || wrong != nil {
			continue
		}
		mode := want.ConnConfig.DefaultQueryExecMode
		expected := settings{
			maxConns: int(want.MaxConns), minConns: int(want.MinConns), minIdle: int(want.MinIdleConns),
			lifetime: want.MaxConnLifetime, jitter: want.MaxConnLifetimeJitter, maxIdle: want.MaxConnIdleTime,
			period: want.HealthCheckPeriod, pingTimeout: want.PingTimeout, pingAfter: got.pingAfter,
			prepares: mode == pgx.QueryExecModeCacheStatement && want.ConnConfig.StatementCacheCapacity > 0,
		}
		if expected.pingTimeout == 0 {
			expected.pingTimeout = pingTimeout
		}
		connect := got.connect
		got.connect = nil
		if got != expected {
			t.Errorf("%s: %+v, want %+v", query, got, expected)
		}
		if !maps.Equal(connect.RuntimeParams, want.ConnConfig.RuntimeParams) || connect.ConnectTimeout != want.ConnConfig.ConnectTimeout ||
			(connect.ValidateConnect == nil) != (want.ConnConfig.ValidateConnect == nil) {
			t.Errorf("%s: the server would get %v, want %v", query, connect.RuntimeParams, want.ConnConfig.RuntimeParams)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for query, says := range map[string]string{
		"pool_max_conns=many":                "pool_max_conns",
		"pool_health_check_period=0s":        "pool_health_check_period", // with which pgxpool panics
		"pool_health_check_period=-1s":       "pool_health_check_period",
		"default_query_exec_mode=often":      `unknown value "often"`,
		"pool_min_conns=x&pool_max_conns=0":  "pool_min_conns",
		"pool_max_conns=0&password=hunter22": "too small",
	} {
		_, err := parse("postgres://u@h/app?" + query)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: error %v, want %q", query, err, says)
		}
	}
}
