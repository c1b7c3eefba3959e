//go:build linux

package recipes

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/need"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// Two hosts, both of them this machine, run the task at the same time and one after the other.
func TestAnsible(t *testing.T) {
	thorough.Test(t, "downloads Ansible")
	t.Parallel()
	s := set(t)
	playbook := s.ansible()
	s.command("migrate.sh")
	s.file("migrate.yml", 0o600, recipe(t, "migrate.yml"))
	s.file("hosts", 0o600, fmt.Sprintf("[app]\none\ntwo\n[app:vars]\nansible_connection=local\nholdfast_store='%s'\napp_folder='%s'\n", s.store, s.dir))
	play := s.start(playbook[0], playbook[1], "-i", "hosts", "migrate.yml")
	s.awaitBegun(1)
	s.awaitWaiters("migrate", 1)
	s.checkBegun(1)
	s.letEnd(1)
	s.awaitBegun(2)
	// The command of the second host is killed: its task fails, and the lock is free.
	s.killWrapper(s.events("begin")[1])
	play.exits(2)
	s.start("holdfast", "run", "migrate", "--", "true").exits(0)
}

func TestOnePlaybook(t *testing.T) {
	thorough.Test(t, "downloads Ansible")
	t.Parallel()
	s := set(t)
	playbook := s.ansible()
	s.script("bin/ansible-playbook", "#!/bin/sh\nexec "+playbook[0]+" "+playbook[1]+" -i localhost, \"$@\"\n")
	s.command("site.sh")
	s.file("site.yml", 0o600, "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n    - ansible.builtin.command: ./site.sh\n")
	s.checkWaits("site", func() *run { return s.sh(recipe(t, "site.sh")) })
}

// ansible returns the command line that starts ansible-playbook, and extends the environment of
// the stage for it.
func (s *stage) ansible() []string {
	s.Helper()
	cmd := need.Python(s.T, []string{"ansible-core==2.18.6"}, "ansible-playbook")
	s.env = append(s.env, cmd.Env[len(cmd.Env)-1], "LC_ALL=C.UTF-8", "ANSIBLE_HOME="+s.path(".ansible"))
	return []string{s.tool("python3"), cmd.Path}
}
