package pglock

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/quote"
)

// settings has what a connection string says about connections and their pool.
type settings struct {
	connect *pgconn.Config

	maxConns, minConns, minIdle int
	lifetime, jitter            time.Duration // of a connection; the pool adds a part of jitter, at random
	maxIdle                     time.Duration // until an unused connection is closed
	period                      time.Duration // between looks at unused connections
	pingTimeout                 time.Duration
	pingAfter                   time.Duration // an unused connection is tested before its next use

	prepares bool
}

// parse parses a connection string, with all parameters that pgxpool.ParseConfig has,
// and their defaults. What it does not know goes to the server.
func parse(text string) (s settings, err error) {
	if s.connect, err = pgconn.ParseConfig(text); err != nil {
		return s, err
	}
	p := params{values: s.connect.RuntimeParams}
	s.maxConns = p.number("pool_max_conns", max(4, runtime.NumCPU()))
	s.minConns = p.number("pool_min_conns", 0)
	s.minIdle = p.number("pool_min_idle_conns", 0)
	s.lifetime = p.duration("pool_max_conn_lifetime", time.Hour)
	s.jitter = p.duration("pool_max_conn_lifetime_jitter", 0)
	s.maxIdle = p.duration("pool_max_conn_idle_time", 30*time.Minute)
	s.period = p.duration("pool_health_check_period", time.Minute)
	s.pingTimeout = p.duration("pool_ping_timeout", pingTimeout)
	s.pingAfter = time.Second
	if s.pingTimeout == 0 {
		s.pingTimeout = pingTimeout
	}
	capacity := p.number("statement_cache_capacity", 512)
	p.number("description_cache_capacity", 0) // no descriptions are kept
	s.prepares = p.mode("default_query_exec_mode") && capacity > 0
	switch {
	case p.err != nil:
	case s.maxConns < 1:
		p.fail("pool_max_conns", errors.New("it is too small"))
	case s.period <= 0:
		p.fail("pool_health_check_period", errors.New("it is not positive"))
	}
	if p.err != nil {
		return s, pgconn.NewParseConfigError(text, "cannot parse "+p.wrong, p.err)
	}
	return s, nil
}

// params are parameters that the server must not get. Of the first wrong one, wrong is
// the name, and err says why.
type params struct {
	values map[string]string
	wrong  string
	err    error
}

func (p *params) fail(name string, err error) {
	if p.err == nil {
		p.wrong, p.err = name, err
	}
}

func (p *params) take(name string) (value string, there bool) {
	value, there = p.values[name]
	delete(p.values, name)
	return value, there
}

func (p *params) number(name string, unset int) int {
	value, there := p.take(name)
	if !there {
		return unset
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		p.fail(name, err)
	}
	return int(n)
}

func (p *params) duration(name string, unset time.Duration) time.Duration {
	value, there := p.take(name)
	if !there {
		return unset
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		p.fail(name, err)
	}
	return d
}

// mode reports whether the mode is the one that prepares statements.
func (p *params) mode(name string) (prepares bool) {
	value, there := p.take(name)
	switch value {
	case "cache_statement":
		return true
	case "cache_describe", "describe_exec", "exec", "simple_protocol":
		return false
	}
	if there {
		p.fail(name, fmt.Errorf("unknown value %s", quote.Short(value)))
	}
	return true
}
