package sqlitelock

import (
	"os"
	"strings"
	"testing"
)

const mountinfo = `21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:20 / /proc rw shared:1 - proc proc rw
30 21 0:30 / /srv/nfs rw,noatime shared:2 master:1 propagate_from:3 - nfs4 server:/export rw,vers=4.2
31 30 254:1 / /srv/nfs/local rw - ext4 /dev/vdb rw
32 21 0:32 / /mnt/with\040space rw - cifs //server/share rw
33 21 0:33 / /mnt/back\134slash rw - fuse.sshfs host: rw
34 21 0:34 / /mnt/fuse rw - fuse.bindfs /src rw
35 21 0:35 / /mnt/twice rw - ext4 /dev/vdc rw
36 35 0:36 / /mnt/twice rw - 9p host rw
37 21 0:37 / /mnt/vm rw - virtiofs tag rw
38 21 0:38 / /mnt/broken rw
39 21 0:39 / /mnt/tmp rw - tmpfs - rw
40 21 254:0 /host/locks.db /data/locks.db rw - ext4 /dev/vda rw
`

func TestMountOf(t *testing.T) {
	for path, want := range map[string]string{
		"/":                        "ext4",
		"/home/u/locks.db":         "ext4",
		"/srv/nfs":                 "nfs4",
		"/srv/nfs/locks.db":        "nfs4",
		"/srv/nfs2/locks.db":       "ext4",
		"/srv/nfs/local/locks.db":  "ext4",
		"/mnt/with space/locks.db": "cifs",
		`/mnt/back\slash/locks.db`: "fuse.sshfs",
		"/mnt/fuse/locks.db":       "fuse.bindfs",
		"/mnt/twice/locks.db":      "9p",
		"/mnt/broken/locks.db":     "ext4",
		"/mnt/tmp/locks.db":        "tmpfs",
		"/not/there/yet/locks.db":  "ext4",
	} {
		if _, got := mountOf([]byte(mountinfo), path); got != want {
			t.Errorf("%s is on %q, want %q", path, got, want)
		}
	}
	if at, got := mountOf(nil, "/x"); at != "" || got != "" {
		t.Errorf("without mounts: %q", got)
	}
	for path, want := range map[string]bool{"/data/locks.db": true, "/data/locks.db-wal": false, "/mnt/fuse/locks.db": false} {
		if at, _ := mountOf([]byte(mountinfo), path); (at == path) != want {
			t.Errorf("%s is mounted at %s", path, at)
		}
	}
}

func TestIsNetworkFS(t *testing.T) {
	for fsType, want := range map[string]bool{
		"nfs": true, "nfs4": true, "cifs": true, "smb3": true, "9p": true, "virtiofs": true, "lustre": true,
		"fuse.sshfs": true, "fuse.glusterfs": true, "fuse.mount-s3": true, "fuse.not-known": true, "fuse": true,
		"ext4": false, "xfs": false, "btrfs": false, "tmpfs": false, "overlay": false, "fuse.bindfs": false, "": false,
		"sshfs": false, "fuse.fuse-overlayfs": false, "fuseblk": false,
	} {
		if got := isNetworkFS(fsType); got != want {
			t.Errorf("%s: %v", fsType, got)
		}
	}
}

func TestBootIDOfContainer(t *testing.T) {
	const folder = "/proc/sys/kernel/random"
	host, err := bootIDIn(folder)
	if err != nil || len(host) != len("8d0a1c1e-0000-0000-0000-000000000000") && !strings.HasPrefix(host, containerPrefix) {
		t.Errorf("of this machine: %q, %v", host, err)
	}
	// A link to another file system has the same effect as a mount.
	other := t.TempDir()
	if err := os.Symlink(folder+"/boot_id", other+"/boot_id"); err != nil {
		t.Fatal(err)
	}
	if id, err := bootIDIn(other); err != nil || id != containerPrefix+strings.TrimPrefix(host, containerPrefix) {
		t.Errorf("of a container: %q, %v", id, err)
	}
	if id, err := bootIDIn(t.TempDir()); err == nil {
		t.Errorf("of nothing: %q", id)
	}
}

func TestBoottimeOffset(t *testing.T) {
	for text, want := range map[string]int64{
		"monotonic           0         0\nboottime            0         0\n": 0,
		"monotonic  5 0\nboottime     86400  500\n":                          86400e9 + 500,
		"boottime -10 0\n": -10e9,
	} {
		if got, err := boottimeOffset([]byte(text)); err != nil || got.Nanoseconds() != want {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", "monotonic 0 0\n", "boottime x 0\n", "boottime 1\n"} {
		if got, err := boottimeOffset([]byte(text)); err == nil {
			t.Errorf("%q: %v and no error", text, got)
		}
	}
}
