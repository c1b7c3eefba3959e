package guard

// Isolation is how the processes of a command are kept together, so that all of them can
// be ended at once, also those of other users.
type Isolation string

// The isolations.
const (
	NotIsolated Isolation = ""
	// Auto is a cgroup or, where that is not possible, a PID namespace.
	Auto Isolation = "auto"
	// InCgroup is a cgroup (version 2) of the command's own. One write ends all its
	// processes, of any user.
	InCgroup Isolation = "cgroup"
	// InPIDs is a PID namespace whose first process is the guard: the kernel ends them all
	// when the guard ends, also when it is killed.
	InPIDs Isolation = "pids"
)
