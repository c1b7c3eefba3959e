package sqlitelock

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strings"
)

// networkFSTypes are the file systems of the kernel whose files other machines,
// or the host of a virtual machine, may have open too.
var networkFSTypes = []string{
	"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
	"nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
}

// localFUSE are file systems of programs that are known to serve this machine
// alone. Of the others there are too many to know which reach further.
var localFUSE = []string{"bindfs", "encfs", "exfat", "fuse-overlayfs", "gocryptfs", "mergerfs", "ntfs-3g", "unionfs"}

// networkFS goes by the name of the file system.
func networkFS(path string) string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "" // without /proc the clock says what is missing
	}
	if _, fsType := mountOf(mounts, path); isNetworkFS(fsType) {
		return fsType
	}
	return ""
}

// isMountPoint reports whether something is mounted at the path itself.
func isMountPoint(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	point, _ := mountOf(mounts, path)
	return err == nil && point == path
}

func isNetworkFS(fsType string) bool {
	name, fuse := strings.CutPrefix(fsType, "fuse.")
	return !fuse && slices.Contains(networkFSTypes, fsType) || fuse && !slices.Contains(localFUSE, name)
}

// mountOf finds the mount that the path is on in lines such as
//
//	36 35 98:0 /root /mount\040point rw,noatime master:1 - ext4 /dev/sda1 rw
//
// with any number of fields before the dash. Of mounts on one another at the
// same place the last one counts.
func mountOf(mountinfo []byte, path string) (at, fsType string) {
	longest := -1
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	lines.Buffer(nil, len(mountinfo)+1) // the options of an overlay can be long
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		dash := slices.Index(fields, "-")
		if dash < 6 || dash+1 >= len(fields) {
			continue
		}
		point := unescapeMount(fields[4])
		if len(point) >= longest && within(path, point) {
			longest, at, fsType = len(point), point, fields[dash+1]
		}
	}
	return at, fsType
}

func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}

// unescapeMount undoes the kernel's \040 for what would end a field or line.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}
