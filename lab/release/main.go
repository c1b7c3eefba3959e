// Command release makes a release in a clone of the repository and proves it there (make
// release, make release-check). It drops the replaces of local modules, sets the versions of
// all modules to the same one, tags each module, and installs the tags in empty folders as
// users do. It never pushes and never changes the working tree. Without -check, its last step
// fetches the tags into the repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

func main() {
	check := flag.Bool("check", false, "prove that the working tree, as it is, can be released; keep nothing")
	version := flag.String("version", "", "the version, vX.Y.Z; with -check there is a default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *check, *version)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// versions are the versions that the module paths allow: from v2 on, a path would have to end
// in /v2.
var versions = regexp.MustCompile(`^v[01]\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, check bool, version string) error {
	if check && version == "" {
		version = "v0.0.1-check"
	}
	if !versions.MatchString(version) {
		return fmt.Errorf("version %q: want v0.Y.Z or v1.Y.Z, as in make release VERSION=v0.1.0", version)
	}
	root, err := modules.Root(ctx)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "holdfast-release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r := &release{root: root, repo: filepath.Join(tmp, "repo"), tmp: tmp, version: version}

	if check {
		err = r.copyWorkingTree(ctx)
	} else {
		err = r.cloneHead(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.tag(ctx); err != nil {
		return err
	}
	if err := r.prove(ctx); err != nil {
		return err
	}
	if check {
		fmt.Printf("the working tree can be released (tried as %s)\n", version)
		return nil
	}
	return r.keep(ctx)
}

// keep fetches the tags into the repository, all or none.
func (r *release) keep(ctx context.Context) error {
	fetch := []string{"fetch", "--quiet", "--atomic", "--no-tags", r.repo}
	var tags []string
	for _, m := range r.released {
		tag := "refs/tags/" + m.Tag(r.version)
		tags = append(tags, tag)
		fetch = append(fetch, tag+":"+tag)
	}
	if _, err := modules.Output(ctx, r.root, "git", fetch...); err != nil {
		return err
	}
	fmt.Printf("tagged, in this repository only. To publish:\n  git push --atomic origin %s\nTo take it back:\n  git tag -d %s\n",
		strings.Join(tags, " "), strings.ReplaceAll(strings.Join(tags, " "), "refs/tags/", ""))
	return nil
}

// cloneHead clones the committed state; nothing else can be released.
func (r *release) cloneHead(ctx context.Context) error {
	changed, err := modules.Output(ctx, r.root, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return errors.New("the working tree has changes; commit them first:\n" + strings.TrimRight(changed, "\n"))
	}
	if err := r.clone(ctx); err != nil {
		return err
	}
	for _, m := range r.released {
		if out, err := modules.Output(ctx, r.root, "git", "tag", "--list", m.Tag(r.version)); err != nil {
			return err
		} else if out != "" {
			return fmt.Errorf("the tag %s is there already; a version that somebody may have seen is never moved", m.Tag(r.version))
		}
	}
	return nil
}
