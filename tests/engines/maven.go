package engines

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/holdfast-go/holdfast/tests/internal/modules"
)

// What Maven says when this machine lacks something; whatever else fails is
// broken.
var (
	unreachable = regexp.MustCompile(`(?i)unknown host|could not transfer|offline mode|connection (refused|timed out|reset)|connect timed out`)
	noCompiler  = regexp.MustCompile(`(?i)no compiler is provided|release version \d+ not supported|invalid target release`)
)

const howToGet = "on Debian: apt-get install default-jdk-headless maven"

// build compiles a Maven project with Java and its dependencies, and returns the
// class path. The result stays in .cache until the sources change: only the
// first run needs Maven and a network.
func build(ctx context.Context, name string, project fs.FS) (string, error) {
	root, err := modules.Root(ctx)
	if err != nil {
		return "", err
	}
	sum, err := hash(project)
	if err != nil {
		return "", err
	}
	cache := filepath.Join(root, ".cache", "engines")
	built := filepath.Join(cache, name+"-"+sum)
	classPath := strings.Join([]string{
		filepath.Join(built, "target", "classes"),
		filepath.Join(built, "target", "lib", "*"),
	}, string(os.PathListSeparator))
	if exists(built) {
		return classPath, nil
	}
	if err := os.MkdirAll(cache, 0o777); err != nil {
		return "", err
	}
	// Several test processes start at once, and one is to build.
	unlock, err := lockedfile.MutexAt(filepath.Join(cache, name+".lock")).Lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(built) {
		return classPath, nil
	}
	return classPath, maven(ctx, cache, project, built)
}

// maven builds in a folder of its own, so that built is there only if it is
// complete.
func maven(ctx context.Context, cache string, project fs.FS, built string) error {
	mvn, err := find("mvn")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(cache, "building-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, project); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, mvn, "--batch-mode", "--quiet", "compile", "dependency:copy-dependencies")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if words := unreachable.Find(out); words != nil {
			return missing{fmt.Sprintf("Maven cannot download what it needs (%s)", words)}
		}
		if noCompiler.Match(out) {
			return missing{"Maven finds no JDK of Java 17 or newer; " + howToGet}
		}
		return fmt.Errorf("mvn: %w\n%s", err, out)
	}
	return os.Rename(dir, built)
}

// find looks for a program of Java's.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if errors.Is(err, exec.ErrNotFound) {
		return "", missing{program + " is missing; " + howToGet}
	}
	return path, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// hash names the contents of all files.
func hash(project fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(project, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(project, path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(content), content)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:6]), err
}
