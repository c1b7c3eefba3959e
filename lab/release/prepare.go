package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// home is the prefix of the paths of all modules here. They must not be requested from a proxy
// or from the checksum database, because the version does not exist there yet.
const home = "github.com/holdfast-go"

// release is a release that is being made.
type release struct {
	root    string // the checkout, which is only read
	tmp     string
	repo    string // the clone in which the tags are made
	version string

	all      []modules.Module
	released []modules.Module // each after the modules that it requires
}

// clone makes the clone and finds the modules.
func (r *release) clone(ctx context.Context) error {
	if _, err := modules.Output(ctx, r.root, "git", "clone", "--quiet", "--no-tags", r.root, r.repo); err != nil {
		return err
	}
	return r.findModules(ctx)
}

func (r *release) findModules(ctx context.Context) error {
	var err error
	if r.all, err = modules.Find(ctx, r.repo); err != nil {
		return err
	}
	for _, m := range r.all {
		for _, m := range append(modules.Reach(m, r.all), m) {
			if m.Released() && !slices.ContainsFunc(r.released, func(o modules.Module) bool { return o.Dir == m.Dir }) {
				r.released = append(r.released, m)
			}
		}
	}
	return nil
}

// copyWorkingTree clones the repository, replaces the committed files with the working tree,
// and commits that in the clone.
func (r *release) copyWorkingTree(ctx context.Context) error {
	if _, err := modules.Output(ctx, r.root, "git", "clone", "--quiet", "--no-tags", "--no-checkout", r.root, r.repo); err != nil {
		return err
	}
	files, err := modules.Output(ctx, r.root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return err
	}
	for file := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(r.root, file), filepath.Join(r.repo, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := r.findModules(ctx); err != nil {
		return err
	}
	return r.commit(ctx, "The working tree")
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// tag makes one commit for all go.mod files, and one for the go.sum of each module that
// requires another one: its sums are known only after the other one is tagged.
func (r *release) tag(ctx context.Context) error {
	for _, m := range r.all {
		var edits []string
		for _, need := range r.all {
			if slices.Contains(m.Require, need.Path) {
				edits = append(edits, "-require="+need.Path+"@"+r.version)
			}
			if _, replaced := m.Replace[need.Path]; replaced && m.Released() {
				edits = append(edits, "-dropreplace="+need.Path)
			}
		}
		if len(edits) == 0 {
			continue
		}
		args := append([]string{"mod", "edit"}, edits...)
		if _, err := modules.Output(ctx, filepath.Join(r.repo, m.Dir), "go", args...); err != nil {
			return err
		}
	}
	if err := r.commit(ctx, "Release "+r.version); err != nil {
		return err
	}
	for _, m := range r.released {
		tidy := modules.Command(ctx, filepath.Join(r.repo, m.Dir), "go", "mod", "tidy")
		if err := r.fromTags(ctx, tidy); err != nil {
			return err
		}
		if err := r.commit(ctx, "Release "+m.Tag(r.version)); err != nil {
			return err
		}
		fmt.Println("tag", m.Tag(r.version))
		if _, err := modules.Output(ctx, r.repo, "git", "tag", "--no-sign", m.Tag(r.version)); err != nil {
			return err
		}
		download := modules.Command(ctx, r.tmp, "go", "mod", "download", m.Path+"@"+r.version)
		if err := r.fromTags(ctx, download); err != nil {
			return err
		}
	}
	return nil
}

// commit commits the changes in the clone, in the name of the user.
func (r *release) commit(ctx context.Context, message string) error {
	if _, err := modules.Output(ctx, r.repo, "git", "add", "--all", "--force"); err != nil {
		return err
	}
	if _, err := modules.Output(ctx, r.repo, "git", "diff", "--cached", "--quiet"); err == nil {
		return nil
	}
	ident, err := modules.Output(ctx, r.root, "git", "var", "GIT_COMMITTER_IDENT")
	name, rest, ok := strings.Cut(ident, " <")
	if err != nil || !ok {
		name, rest = "release-check", "release-check@localhost>"
	}
	email, _, _ := strings.Cut(rest, ">")
	_, err = modules.Output(ctx, r.repo, "git", "-c", "user.name="+name, "-c", "user.email="+email,
		"-c", "commit.gpgSign=false", "commit", "--quiet", "--no-verify", "--message", message)
	return err
}

// cache returns the module cache for the tags. Its download folder has the layout of a module
// proxy.
func (r *release) cache() string { return filepath.Join(r.tmp, "made") }

// fromTags runs a go command that gets the modules here from the clone's tags, in the same way
// as from the published repository.
func (r *release) fromTags(ctx context.Context, cmd *exec.Cmd) error {
	proxies, err := r.othersProxies(ctx)
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Env,
		"GOMODCACHE="+r.cache(),
		"GOFLAGS=-modcacherw -trimpath",
		"GOPROXY="+proxies,
		"GOPRIVATE=", "GONOPROXY="+home, "GONOSUMDB="+home,
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://"+filepath.ToSlash(r.repo)+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://github.com/holdfast-go/holdfast",
	)
	_, err = modules.OutputOf(cmd)
	return err
}

// othersProxies returns the GOPROXY for modules of other projects: first the local module
// cache, then the configured one.
func (r *release) othersProxies(ctx context.Context) (string, error) {
	out, err := modules.Output(ctx, r.root, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return "", err
	}
	cache, proxy, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return fileProxy(cache) + "," + proxy, nil
}

func fileProxy(cache string) string {
	return "file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download"))
}
