//go:build linux

package recipes

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/lab/internal/need"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

func fromYAML(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(recipe(t, name)), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// The step runs as on a runner, in GitHub's shell and with the variables of the step.
func TestGitHub(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Run string
				Env map[string]string
			}
		}
	}
	fromYAML(t, "github.yml", &workflow)
	steps := workflow.Jobs["deploy"].Steps
	step := steps[len(steps)-1]
	s := set(t)
	s.command("deploy.sh")
	for name, value := range step.Env {
		value = strings.NewReplacer("${{ secrets.HOLDFAST_STORE }}", s.store, "${{ github.repository }}", "acme/app",
			"${{ github.actor }}", "ada", "${{ github.run_number }}", "7").Replace(value)
		if strings.Contains(value, "${{") {
			t.Fatalf("%s=%s needs more than this test has", name, value)
		}
		s.env = append(s.env, name+"="+value)
	}
	s.file("step.sh", 0o600, step.Run)
	s.checkWaits("deploy", func() *run { return s.start("/bin/bash", "-e", s.path("step.sh")) })
}

func TestGitLab(t *testing.T) {
	t.Parallel()
	var pipeline map[string]struct{ Script []string }
	fromYAML(t, "gitlab.yml", &pipeline)
	s := set(t)
	s.command("deploy.sh")
	s.env = append(s.env, "GITLAB_USER_LOGIN=ada", "CI_PROJECT_PATH=acme/app", "CI_JOB_ID=7")
	s.checkWaits("deploy", func() *run { return s.sh(strings.Join(pipeline["deploy"].Script, "\n")) })
}

// The container of the CronJob runs as its manifest says.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	var job struct {
		Spec struct {
			JobTemplate struct {
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct{ Command, Args []string }
						}
					}
				}
			} `yaml:"jobTemplate"`
		}
	}
	fromYAML(t, "cronjob.yaml", &job)
	c := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	s := set(t)
	s.command("bin/report.sh")
	command := slices.Concat(c.Command, c.Args)
	s.checkSkips(func() *run { return s.start(command[0], command[1:]...) }, 0, `"report" is held by`)
}

// The programs that read these files find no error in them, and do report a wrong key.
func TestFilesAreValid(t *testing.T) {
	thorough.Test(t, "downloads what checks the files of others")
	actionlint := []string{"go", "run", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12", "-shellcheck=", "-pyflakes="}
	for name, tc := range map[string]struct {
		file, key string
		packages  []string
		check     []string
	}{
		"GitHub":     {"github.yml", "runs-on", nil, actionlint},
		"GitLab":     {"gitlab.yml", "script", []string{"check-jsonschema==0.39.0"}, []string{"check-jsonschema", "--builtin-schema", "vendor.gitlab-ci"}},
		"Kubernetes": {"cronjob.yaml", "concurrencyPolicy", []string{"kubernetes-validate==1.37.0"}, []string{"kubernetes-validate", "--strict", "--no-warn"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t)
			check := func(text string) (string, error) {
				s.file(tc.file, 0o600, text)
				cmd := exec.CommandContext(t.Context(), tc.check[0], append(tc.check[1:], s.path(tc.file))...)
				if tc.packages != nil {
					cmd = need.Python(t, tc.packages, cmd.Args...)
				}
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := check(recipe(t, tc.file)); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if out, err := check(strings.Replace(recipe(t, tc.file), tc.key+":", tc.key+"x:", 1)); err == nil {
				t.Errorf("a wrong key is not noticed: %s", out)
			}
		})
	}
}
