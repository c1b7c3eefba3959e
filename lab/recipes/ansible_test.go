//go:build linux

package recipes

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/need"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// Two hosts, both this machine, do the task at the same time, and one after the other.
func TestAnsible(t *testing.T) {
	thorough.Test(t, "downloads Ansible")
	t.Parallel()
	s := set(t)
	playbook := s.ansible()
	s.command("migrate.sh")
	s.file("migrate.yml", 0o600, recipe(t, "migrate.yml"))
	s.file("hosts", 0o600, fmt.Sprintf("[app]\none\ntwo\n[app:vars]\nansible_connection=local\nholdfast_store='%s'\napp_folder='%s'\n", s.store, s.dir))
	play := s.start(playbook[0], playbook[1], "-i", "hosts", "migrate.yml")
	s.begun(1)
	s.waiting("migrate", 1)
	s.one(1)
	s.goOn(1)
	s.begun(2)
	// What the second does is killed in the middle: its task fails, and the lock is free.
	s.killed(s.events("begin")[1])
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
	s.waits("site", func() *run { return s.sh(recipe(t, "site.sh")) })
}

// ansible is what starts ansible-playbook. The environment of the stage gets what it
// needs.
func (s *stage) ansible() []string {
	s.Helper()
	cmd := need.Python(s.T, []string{"ansible-core==2.18.6"}, "ansible-playbook")
	s.env = append(s.env, cmd.Env[len(cmd.Env)-1], "LC_ALL=C.UTF-8", "ANSIBLE_HOME="+s.path(".ansible"))
	return []string{s.tool("python3"), cmd.Path}
}
