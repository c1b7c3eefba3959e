package engines

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// PgBouncer returns the URL of a PgBouncer for the database of a URL. It ends with the test. It
// pools transactions, and does not support prepared statements: a client's session lasts for
// one transaction, and so does what it prepares, sets or listens to.
func PgBouncer(t testing.TB, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p, err := startPgBouncer(context.WithoutCancel(t.Context()), u)
	if err != nil {
		postgresKind.skipOrFail(t, "pgbouncer", err, "")
	}
	t.Cleanup(p.end)
	return p.url
}

func startPgBouncer(ctx context.Context, database *url.URL) (*process, error) {
	program, env, err := debianDaemon(ctx, "pgbouncer")
	if err != nil {
		return nil, err
	}
	folder, err := unprivilegedFolder(ctx)
	if err != nil {
		return nil, err
	}
	name, user := strings.TrimPrefix(database.Path, "/"), database.User.Username()
	password, _ := database.User.Password()
	host, port := database.Hostname(), database.Port()
	if port == "" {
		port = "5432"
	}
	// Clients need no password: only the server may require one.
	users := filepath.Join(folder, "users")
	quoted := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	if err := writeUnprivileged(users, []byte(quoted(user)+" "+quoted(password)+"\n")); err != nil {
		return nil, err
	}
	through := &url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + name, RawQuery: "sslmode=disable"}
	p, err := native{
		name: "pgbouncer", folder: folder, env: env, crash: syscall.SIGKILL, unprivileged: true,
		url: func(port int) string {
			u := *through
			u.Host = loopback(port)
			return u.String()
		},
		command: func(listen int) ([]string, error) {
			// Each port has a file of its own, by which an answer shows which PgBouncer it
			// comes from.
			config := pgBouncerConfig(folder, listen)
			return []string{program, config}, writeUnprivileged(config, fmt.Appendf(nil, `[databases]
%s = host=%s port=%s dbname=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
admin_users = %s
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
`, name, host, port, postgresString(name), listen, users, user))
		},
		ready: func(ctx context.Context, _, port int) error {
			u := *through
			u.Host, u.Path = loopback(port), "/pgbouncer"
			return pgBouncerReady(ctx, u.String(), pgBouncerConfig(folder, port))
		},
	}.start(ctx, 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return p, nil
}

func pgBouncerConfig(folder string, port int) string {
	return filepath.Join(folder, fmt.Sprintf("pgbouncer-%d.ini", port))
}

// pgBouncerReady reads the configuration from the console of a PgBouncer.
func pgBouncerReady(ctx context.Context, console, config string) error {
	conn, err := pgconn.Connect(ctx, console)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, "SHOW CONFIG").ReadAll()
	if err != nil {
		return err
	}
	for _, result := range results {
		for _, row := range result.Rows {
			if string(row[0]) == "conffile" && string(row[1]) == config {
				return nil
			}
		}
	}
	return errors.New("at its port is another one")
}
