package host

import "time"

// Confinement is what a command may not do, beyond what this process may not do itself. Each restriction is off until it
// is set. What a restriction needs of the system is beside it; elsewhere Enforce decides.
type Confinement struct {
	// Rlimits bound what each process of the command uses. Linux.
	Rlimits Rlimits
	// NoNewPrivs has no program get more rights than this process has, by setuid or file capabilities. "" means Off. Linux.
	NoNewPrivs Enforce
	// Files are the files that the command may use. Linux with Landlock.
	Files Files
	// NoNetwork leaves the command without a network, loopback included. "" means Off. Linux with user namespaces.
	NoNetwork Enforce
	// OwnPIDs has the command see no process but its own, and ends all of them with it. "" means Off. Linux with user
	// namespaces.
	OwnPIDs Enforce
	// Cgroup bounds what all processes of the command use together. Linux with cgroup v2 that is delegated to this process.
	Cgroup Cgroup
}

// Enforce says what happens where the system cannot enforce a restriction.
type Enforce string

const (
	// Off leaves the restriction out.
	Off Enforce = "off"
	// Try starts the command without it, and logs that once.
	Try Enforce = "try"
	// Require does not start the command.
	Require Enforce = "require"
)

// Rlimits are bounds for each process by itself. 0 leaves that of this process.
type Rlimits struct {
	// Enforce is Off where "" and nothing is bounded, else Require.
	Enforce Enforce
	// OpenFiles is the number of open files.
	OpenFiles int
	// Processes is the number of processes and threads of the user, those of others included.
	Processes int
	// FileSize is the bytes of a file that is written.
	FileSize int64
	// AddressSpace is the bytes of addresses, which for many programs are far more than those of memory: node needs 16 GiB.
	AddressSpace int64
	// CPU is the processor time of a process, to the second. A process beyond it is ended.
	CPU time.Duration
}

func (r Rlimits) hasBounds() bool {
	r.Enforce = ""
	return r != Rlimits{}
}

// Files are what a command may use below some paths: nothing else, but for the program itself and what its loader needs.
// Paths are absolute, and must exist.
type Files struct {
	// Enforce is Off where "" and no path is named, else Require.
	Enforce Enforce
	// Read are the files and directories that it may read, and run programs from.
	Read []string
	// Write are those in which it may also write, make and remove files.
	Write []string
}

func (f Files) hasPaths() bool { return len(f.Read)+len(f.Write) > 0 }

// Cgroup are bounds for all processes of an instance together. 0 means none.
type Cgroup struct {
	// Enforce is Off where "" and nothing is bounded, else Require.
	Enforce Enforce
	// Memory is the bytes of memory. An instance beyond it is ended.
	Memory int64
	// CPUs is how many processors it keeps busy at most, such as 0.5.
	CPUs float64
	// Processes is the number of processes and threads.
	Processes int
}

func (c Cgroup) hasBounds() bool {
	c.Enforce = ""
	return c != Cgroup{}
}

// enforceIf is what Enforce means where it is "".
func enforceIf(anything bool) Enforce {
	if anything {
		return Require
	}
	return Off
}
