package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A role that may create nothing is told the command that prints the SQL. Once an
// administrator has run that, with the rights in its first comment, the role locks.
func TestSchemaForPostgres(t *testing.T) {
	t.Parallel()
	server := serverURL(t, "postgres")
	admin, err := url.Parse(schemas(t, server)("some_locks"))
	check(t, err)
	ctx := context.WithoutCancel(t.Context())
	plain := *admin
	plain.RawQuery = server.RawQuery
	conn, err := pgx.Connect(ctx, plain.String())
	check(t, err)
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	}
	role := testName()
	run("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() {
		run("DROP OWNED BY " + role)
		run("DROP ROLE " + role)
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	user := *admin
	user.User = url.User(role)
	lock := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), "holdfast", "run", "-n", "--store", user.String(), "r", "--", "true").CombinedOutput()
		return string(out), err
	}

	told, err := lock()
	command := regexp.MustCompile(`holdfast schema '(.*?)'`).FindStringSubmatch(told)
	if err == nil || command == nil {
		t.Fatalf("a role without rights: %v: %s", err, told)
	}
	sql, err := exec.CommandContext(t.Context(), "holdfast", "schema", command[1]).Output()
	check(t, err)
	// The full URL prints the same, and creates nothing.
	same, err := exec.CommandContext(t.Context(), "holdfast", "schema", "--store", admin.String()).Output()
	if err != nil || string(same) != string(sql) {
		t.Errorf("%v: the SQL of the whole URL is another", err)
	}
	var none bool
	if err := conn.QueryRow(ctx, "SELECT to_regnamespace('some_locks') IS NULL").Scan(&none); err != nil || !none {
		t.Errorf("%v: the command created the schema", err)
	}

	run(string(sql))
	if told, err := lock(); err == nil || !strings.Contains(told, "GRANT USAGE") {
		t.Errorf("a role without grants: %v: %s", err, told)
	}
	grants := regexp.MustCompile(`(?m)^-- +(GRANT .*) TO role;`).FindAllStringSubmatch(string(sql), -1)
	for _, grant := range grants {
		run(grant[1] + " TO " + role)
	}
	if told, err := lock(); err != nil || len(grants) != 3 {
		exit := (*exec.ExitError)(nil)
		t.Errorf("a role with %d grants: %v (ended: %v): %s", len(grants), err, errors.As(err, &exit), told)
	}
}

// The pipeline of the documents ends with an error for a role that may create nothing:
// otherwise a script goes on without the schema.
func TestSchemaThroughPsql(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is missing: install a client of PostgreSQL")
	}
	server := serverURL(t, "postgres")
	admin, err := url.Parse(schemas(t, server)("piped_locks"))
	check(t, err)
	help, err := exec.CommandContext(t.Context(), "holdfast", "schema", "--help").Output()
	check(t, err)
	example := regexp.MustCompile(`holdfast schema \S+ \|\s+psql (.*) postgres://\S+`).FindSubmatch(help)
	page, err := os.ReadFile("../../docs/postgres.md")
	check(t, err)
	documented := regexp.MustCompile(`holdfast schema '\S+' \|\s+psql (.*) 'postgres://\S+'`).FindSubmatch(page)
	if example == nil || documented == nil || string(documented[1]) != string(example[1]) {
		t.Fatalf("the examples differ: %q, %q", example, documented)
	}
	plain := *admin
	plain.RawQuery = server.RawQuery
	role := testName()
	psql := func(u url.URL, sql string) {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "psql", "-X", "-c", sql, u.String()).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	psql(plain, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { psql(plain, "DROP ROLE "+role) })
	for name, user := range map[string]*url.Userinfo{role: url.User(role), "the administrator": plain.User} {
		as := plain
		as.User = user
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "holdfast schema '"+admin.String()+"' | psql "+string(example[1])+" '"+as.String()+"'").CombinedOutput()
		if (err == nil) != (name != role) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
