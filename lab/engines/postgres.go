package engines

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ulikunitz/xz"
)

const postgresVersion = "18.6.0"

var postgresKind = &kind{name: "postgres", start: func(ctx context.Context) (*process, error) {
	folder, err := unprivilegedFolder(ctx)
	if err != nil {
		return nil, err
	}
	return newPostgres(ctx, folder, 0, nil)
}}

// passwordRole is the role whose members must give a password.
const passwordRole = "needs_password"

const postgresAccess = `
host all +` + passwordRole + ` 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
` + replicationAccess

// replicationAccess lets standbys connect.
const replicationAccess = "host replication all 127.0.0.1/32 trust\n"

// postgresPrograms returns the folder with PostgreSQL, always in the same version, whatever
// this machine has.
func postgresPrograms(ctx context.Context) (string, error) {
	cache, err := unprivilegedDir(ctx)
	if err != nil {
		return "", err
	}
	name := "postgres-" + postgresVersion
	unpacked := filepath.Join(cache, name)
	return filepath.Join(unpacked, "bin"), once(cache, name, unpacked, func(dir string) error {
		architecture := map[string]string{"arm64": "arm64v8"}[runtime.GOARCH]
		if architecture == "" {
			architecture = runtime.GOARCH
		}
		archive := "embedded-postgres-binaries-" + runtime.GOOS + "-" + architecture
		if err := mavenCopy(ctx, dir, "io.zonky.test.postgres:"+archive+":"+postgresVersion); err != nil {
			return err
		}
		archive = filepath.Join(dir, archive+"-"+postgresVersion+".jar")
		if err := untar(ctx, archive, dir); err != nil {
			return err
		}
		return errors.Join(os.Remove(archive), os.Chmod(dir, 0o755))
	})
}

// untar unpacks the archive in a jar.
func untar(ctx context.Context, path, dir string) error {
	jar, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer jar.Close()
	for _, file := range jar.File {
		if !strings.HasSuffix(file.Name, ".txz") {
			continue
		}
		packed, err := file.Open()
		if err != nil {
			return err
		}
		defer packed.Close()
		archive, err := xz.NewReader(packed)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
		cmd.Stdin = archive
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("tar: %w\n%s", err, out)
		}
		return nil
	}
	return fmt.Errorf("nothing to unpack in %s", path)
}

// newPostgres creates a database cluster in a folder, and starts its server.
func newPostgres(ctx context.Context, folder string, port int, settings []string) (*process, error) {
	programs, err := postgresPrograms(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "-D", filepath.Join(folder, "data"),
		"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = folder, unprivileged()
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := writeUnprivileged(filepath.Join(folder, "access"), []byte(postgresAccess)); err != nil {
		return nil, err
	}
	return startPostgres(ctx, folder, port, settings)
}

// startPostgres starts a server with the data in the folder.
func startPostgres(ctx context.Context, folder string, port int, settings []string) (*process, error) {
	programs, err := postgresPrograms(ctx)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	return native{
		name: "postgres", folder: folder, crash: syscall.SIGQUIT, unprivileged: true,
		url: func(port int) string {
			return "postgres://postgres@" + loopback(port) + "/postgres?sslmode=disable"
		},
		command: func(port int) ([]string, error) {
			command := []string{filepath.Join(programs, "postgres"), "-D", data}
			for _, setting := range append([]string{
				"port=" + strconv.Itoa(port), "listen_addresses=127.0.0.1", "unix_socket_directories=",
				"hba_file=" + filepath.Join(folder, "access"), "max_connections=200", "timezone=UTC",
			}, settings...) {
				command = append(command, "-c", setting)
			}
			return clocked(ctx, folder, command)
		},
		ready: func(_ context.Context, pid, _ int) error {
			// This file is the server's own: another program may have the port.
			content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
			if err != nil {
				return err
			}
			lines := strings.Split(string(content), "\n")
			if len(lines) < 8 || lines[0] != strconv.Itoa(pid) || strings.TrimSpace(lines[7]) != "ready" {
				return fmt.Errorf("it is not ready: %q", lines)
			}
			return nil
		},
	}.start(ctx, port)
}

// Postgres returns a server that all tests of this process share, or the server that
// HOLDFAST_TEST_POSTGRES_URL names. The user in its URL is a superuser.
func Postgres(t testing.TB) Engine {
	t.Helper()
	return postgresKind.shared(t)
}

// StartPostgres is Postgres for programs other than tests. If this machine lacks something, the
// error says how to get it.
func StartPostgres(ctx context.Context) (Engine, error) { return postgresKind.get(ctx) }

// PostgresDatabase returns the URL of a new database on Postgres(t). It is dropped when the
// test ends, even if clients are connected to it.
func PostgresDatabase(t testing.TB) string {
	t.Helper()
	return postgresDatabase(t, Postgres(t).URL)
}

func postgresDatabase(t testing.TB, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	name := Name()
	postgresDo(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { postgresDo(t, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

// postgresDo runs statements one by one.
func postgresDo(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// PostgresServer is a server for one test, which may stop it.
type PostgresServer struct {
	own
	settings []string
}

// NewPostgres starts a server, even if HOLDFAST_TEST_POSTGRES_URL names one. It ends with the
// test. Settings are lines of postgresql.conf: "max_connections=20".
func NewPostgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	s := ownPostgres(t, settings)
	s.begin(t, s.create, 0)
	return s
}

// ownPostgres returns a server that is not started yet. It ends with the test.
func ownPostgres(t testing.TB, settings []string) *PostgresServer {
	t.Helper()
	folder, err := unprivilegedFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &PostgresServer{own: own{kind: postgresKind, folder: folder}, settings: settings}
	s.start = func(ctx context.Context, port int) (*process, error) {
		return startPostgres(ctx, folder, port, settings)
	}
	s.endWithTest(t)
	return s
}

// create starts the server with a new cluster.
func (s *PostgresServer) create(ctx context.Context, port int) (*process, error) {
	return newPostgres(ctx, s.folder, port, s.settings)
}

// Empty is Restart without the data.
func (s *PostgresServer) Empty(t testing.TB) {
	t.Helper()
	s.empty(t, filepath.Join(s.folder, "data"), s.create)
}

// Role creates a role that needs this password, and returns its URL. Other roles need no
// password.
func (s *PostgresServer) Role(t testing.TB, name, password string) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	postgresDo(t, s.URL,
		"DO $$ BEGIN CREATE ROLE "+passwordRole+"; EXCEPTION WHEN duplicate_object THEN END $$",
		"CREATE ROLE "+pgx.Identifier{name}.Sanitize()+" LOGIN IN ROLE "+passwordRole+" PASSWORD "+postgresString(password))
	u.User = url.UserPassword(name, password)
	return u.String()
}

// postgresString quotes a value.
func postgresString(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }
