package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// program is a first program of a user of the library.
//
//go:embed testdata/program/main.go
var program []byte

// prove uses the release like two users, each with an empty folder and an empty module cache:
// one installs the command, and one writes a program.
func (r *release) prove(ctx context.Context) error {
	if err := r.proveCommand(ctx); err != nil {
		return err
	}
	return r.proveProgram(ctx)
}

func (r *release) proveCommand(ctx context.Context) error {
	const command = "cmd/holdfast"
	dir, err := r.emptyFolder("command")
	if err != nil {
		return err
	}
	fmt.Printf("go install …/%s@%s\n", command, r.version)
	if _, err := r.asUser(ctx, dir, "go", "install", home+"/holdfast/"+command+"@"+r.version); err != nil {
		return err
	}
	holdfast := filepath.Join(dir, "bin", "holdfast")
	out, err := r.asUser(ctx, dir, holdfast, "version")
	if err != nil {
		return err
	}
	if !strings.Contains(out, r.version) {
		return fmt.Errorf("holdfast version says %q, want %s in it", out, r.version)
	}
	out, err = r.asUser(ctx, dir, holdfast, "run", "--quiet", "release", "--", "go", "version")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(out, "go version") {
		return fmt.Errorf("holdfast run: the command printed %q", out)
	}
	return nil
}

func (r *release) proveProgram(ctx context.Context) error {
	dir, err := r.emptyFolder("program")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), program, 0o644); err != nil {
		return err
	}
	get := []string{"get"}
	for _, m := range r.released {
		get = append(get, m.Path+"@"+r.version)
	}
	fmt.Printf("go get of %d modules@%s and a program that uses them\n", len(r.released), r.version)
	for _, step := range [][]string{
		{"mod", "init", "example.com/program"},
		get,
		{"build", home + "/holdfast/..."},
		{"mod", "tidy"},
	} {
		if _, err := r.asUser(ctx, dir, "go", step...); err != nil {
			return err
		}
	}
	out, err := r.asUser(ctx, dir, "go", "run", ".")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(out, "held with token ") {
		return fmt.Errorf("the program printed %q", out)
	}
	return nil
}

func (r *release) emptyFolder(name string) (string, error) {
	dir := filepath.Join(r.tmp, name)
	return dir, os.Mkdir(dir, 0o755)
}

// asUser runs a command as a user who has only the proxy with the release. It starts with an
// empty module cache: if the go command finds the root module there, it does not look for a
// module below it.
func (r *release) asUser(ctx context.Context, dir, name string, args ...string) (string, error) {
	others, err := r.othersProxies(ctx)
	if err != nil {
		return "", err
	}
	cmd := modules.Command(ctx, dir, name, args...)
	cmd.Env = append(cmd.Env,
		"GOMODCACHE="+dir+"-modules",
		"GOBIN="+filepath.Join(dir, "bin"),
		"GOFLAGS=-modcacherw -trimpath",
		"GOPROXY="+fileProxy(r.cache())+","+others,
		"GOPRIVATE=", "GONOPROXY=none", "GONOSUMDB="+home,
		"XDG_STATE_HOME="+filepath.Join(dir, "state"),
	)
	return modules.OutputOf(cmd)
}
