package engines

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// installs matches what apt-get prints for a package that it would install because this machine
// lacks it.
var installs = regexp.MustCompile(`(?m)^Inst (\S+) \(`)

// library matches the names of packages with which programs are linked. Other dependencies are
// for the services that a package sets up.
var library = regexp.MustCompile(`^(lib|lua-)`)

// offline matches what apt-get prints if it cannot download.
var offline = regexp.MustCompile(`(?i)unable to locate package|has no installation candidate|could not resolve|could not connect|connection (refused|timed out|failed)|failed to fetch|404 +not found`)

// debian unpacks a package of Debian, and the libraries that it needs and this machine lacks,
// into a folder of .cache, without installing anything. It returns the folder, and the
// environment for the programs in it. Only the first run needs a network.
func debian(ctx context.Context, name string) (root string, env []string, err error) {
	cache, err := unprivilegedDir(ctx)
	if err != nil {
		return "", nil, err
	}
	root = filepath.Join(cache, "debian-"+name)
	if err := once(cache, "debian-"+name, root, func(dir string) error { return unpack(ctx, name, dir) }); err != nil {
		return "", nil, err
	}
	var libraries []string
	for _, pattern := range []string{"usr/lib/*-linux-*", "lib/*-linux-*"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", nil, err
		}
		libraries = append(libraries, found...)
	}
	return root, []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}, nil
}

// debianDaemon returns a server program of this machine, or Debian's, with its environment.
func debianDaemon(ctx context.Context, name string) (program string, env []string, err error) {
	for _, program := range []string{name, "/usr/sbin/" + name} {
		if program, err := exec.LookPath(program); err == nil {
			return program, nil, nil
		}
	}
	root, env, err := debian(ctx, name)
	return filepath.Join(root, "usr", "sbin", name), env, err
}

func unpack(ctx context.Context, name, dir string) error {
	get, err := exec.LookPath("apt-get")
	if err != nil {
		return missing{name + " is missing, and there is no apt-get to download Debian's"}
	}
	apt := func(arguments ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, get, arguments...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err != nil && offline.Match(out) {
			err = missing{fmt.Sprintf("%s cannot be downloaded (%s); as root: apt-get update", name, offline.Find(out))}
		} else if err != nil {
			err = fmt.Errorf("apt-get %s: %w\n%s", strings.Join(arguments, " "), err, out)
		}
		return out, err
	}
	plan, err := apt("install", "--simulate", "--no-install-recommends", name)
	if err != nil {
		return err
	}
	packages := []string{name}
	for _, m := range installs.FindAllSubmatch(plan, -1) {
		p := string(m[1])
		if library.MatchString(p) && !strings.Contains(p, "perl") || strings.HasPrefix(p, "redis") {
			packages = append(packages, p)
		}
	}
	slices.Sort(packages)
	if _, err := apt(append([]string{"download"}, slices.Compact(packages)...)...); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if out, err := exec.CommandContext(ctx, "dpkg", "-x", archive, dir).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg: %w\n%s", err, out)
		}
		if err := os.Remove(archive); err != nil {
			return err
		}
	}
	// Other users than root run the unpacked programs.
	return os.Chmod(dir, 0o755)
}
