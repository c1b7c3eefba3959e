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

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// Messages of Maven if this machine lacks something. Any other error is a failure.
var (
	unreachable = regexp.MustCompile(`(?i)unknown host|could not transfer|offline mode|connection (refused|timed out|reset)|connect timed out`)
	noCompiler  = regexp.MustCompile(`(?i)no compiler is provided|release version \d+ not supported|invalid target release`)
)

const howToGet = "on Debian: apt-get install default-jdk-headless maven"

// project is a Maven project: folders whose files are merged, and arguments for Maven.
type project struct {
	name      string
	files     []fs.FS
	arguments []string
}

// cacheDir returns the folder for everything that is built, downloaded, or kept by servers.
func cacheDir(ctx context.Context) (string, error) {
	root, err := modules.Root(ctx)
	return filepath.Join(root, ".cache", "engines"), err
}

// build compiles a project with Java and its dependencies, and returns the class path. The
// result stays in .cache until the sources change: only the first run needs Maven and a
// network.
func build(ctx context.Context, p project) (string, error) {
	cache, err := cacheDir(ctx)
	if err != nil {
		return "", err
	}
	sum, err := p.hash()
	if err != nil {
		return "", err
	}
	built := filepath.Join(cache, p.name+"-"+sum)
	classPath := strings.Join([]string{
		filepath.Join(built, "target", "classes"),
		filepath.Join(built, "target", "lib", "*"),
	}, string(os.PathListSeparator))
	return classPath, once(cache, p.name, built, func(dir string) error { return p.maven(ctx, dir) })
}

// once lets fill create the folder built, unless it exists. Of several test processes that
// start at once, one does the work, in a folder of its own: built exists only when it is
// complete.
func once(cache, name, built string, fill func(dir string) error) error {
	if exists(built) {
		return nil
	}
	if err := os.MkdirAll(cache, 0o777); err != nil {
		return err
	}
	unlock, err := lockedfile.MutexAt(filepath.Join(cache, name+".lock")).Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if exists(built) {
		return nil
	}
	dir, err := os.MkdirTemp(cache, "building-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := fill(dir); err != nil {
		return err
	}
	return os.Rename(dir, built)
}

func (p project) maven(ctx context.Context, dir string) error {
	for _, files := range p.files {
		if err := os.CopyFS(dir, files); err != nil {
			return err
		}
	}
	return runMaven(ctx, dir, append([]string{"compile", "dependency:copy-dependencies"}, p.arguments...)...)
}

// mavenCopy downloads an artifact into a folder.
func mavenCopy(ctx context.Context, dir, artifact string) error {
	return runMaven(ctx, dir, "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy", "-Dartifact="+artifact, "-DoutputDirectory="+dir)
}

func runMaven(ctx context.Context, dir string, arguments ...string) error {
	mvn, err := find("mvn")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, mvn, append([]string{"--batch-mode", "--quiet"}, arguments...)...)
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
	return nil
}

// find returns the path of a program of the JDK.
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

// hash identifies the contents of all files, and the arguments.
func (p project) hash() (string, error) {
	h := sha256.New()
	for _, files := range p.files {
		err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, path)
			fmt.Fprintf(h, "%s %d\n%s", path, len(content), content)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	for _, argument := range p.arguments {
		fmt.Fprintf(h, "%d %s", len(argument), argument)
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}
