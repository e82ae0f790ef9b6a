package keeper

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Spec says which process is started, and how. It goes over the socket.
type Spec struct {
	// ID is the name of the process among those of a keeper, by which the next serve finds it. Required, at most 256 bytes.
	ID string `json:"id"`

	// Note is for whoever adopts the process: the keeper returns it as it is. At most 64 KiB. [Process.Remember] has what changes.
	Note string `json:"note,omitempty"`

	// Command is the program and its arguments. A program without a slash is looked for in the PATH of Env. Required.
	Command []string `json:"command"`

	// Dir is where it starts. Empty is the root directory.
	Dir string `json:"dir,omitempty"`

	// Env is its whole environment, as name=value, but for [MarkName].
	Env []string `json:"env,omitempty"`

	// Grace is how long it has to end after the end of its input; then its group gets SIGTERM. Zero is 2 s.
	Grace time.Duration `json:"grace,omitempty"`

	// Term is how long it has after that; then each descendant gets SIGKILL. Zero is 1 s.
	Term time.Duration `json:"term,omitempty"`

	Confine Confine `json:"confine,omitzero"`
}

// A Mode says what happens where the system cannot confine a process in one way.
type Mode string

const (
	// Off does not confine. The empty Mode is Off.
	Off Mode = "off"

	// Try starts the process without, and says so in [Process.Unenforced].
	Try Mode = "try"

	// Require does not start it.
	Require Mode = "require"
)

func (m Mode) on() bool { return m == Try || m == Require }

// Confine says what a process is kept from. The zero value leaves it as it is, but for core dumps, which nothing of a keeper writes.
type Confine struct {
	// Privileges keeps the process from gaining privileges by set-user-ID programs and file capabilities (no-new-privs).
	Privileges Mode `json:"privileges,omitempty"`

	// Limits bounds what it may have, by the numbers below, of which zero bounds nothing.
	Limits       Mode   `json:"limits,omitempty"`
	OpenFiles    uint64 `json:"openFiles,omitempty"`    // open files of each process
	Processes    uint64 `json:"processes,omitempty"`    // processes of its user, those of others among them; root is not bounded
	FileSize     uint64 `json:"fileSize,omitempty"`     // bytes of a file that is written
	CPU          uint64 `json:"cpu,omitempty"`          // seconds of processor time of each process, which is ended then
	AddressSpace uint64 `json:"addressSpace,omitempty"` // bytes of address space of each process; node and Go reserve far more than they use

	// Files allows the file system below Paths alone, and what programs need of the system: see [SystemPaths] (Landlock). It includes Privileges, which Landlock needs.
	Files Mode        `json:"files,omitempty"`
	Paths []Allowance `json:"paths,omitempty"`

	// NoNetwork leaves it without any network, loopback too (a network namespace of its own, in a user namespace).
	NoNetwork Mode `json:"noNetwork,omitempty"`

	// OwnPIDs keeps it from seeing other processes as signals' targets. It is the first process of its namespace: a SIGTERM without a handler does nothing to it, and its end ends all.
	OwnPIDs Mode `json:"ownPids,omitempty"`

	// Cgroup gives it a control group of version 2 of its own, below the keeper's, by which all of it is killed at once. Zero bounds nothing.
	Cgroup  Mode    `json:"cgroup,omitempty"`
	Memory  uint64  `json:"memory,omitempty"`  // bytes that all of it may have
	Threads uint64  `json:"threads,omitempty"` // processes and threads
	CPUs    float64 `json:"cpus,omitempty"`    // processors that it keeps busy
}

// An Allowance is a file or a directory, with all below it, that a confined process may use.
type Allowance struct {
	Path  string `json:"path"`
	Write bool   `json:"write,omitempty"` // whether it may change it, too
}

// needsShim reports whether part of this can be done only in the process itself, before it becomes the program.
func (c Confine) needsShim() bool { return c.Limits.on() || c.Files.on() }

// ErrSpec reports that a Spec cannot be carried out by any keeper. Nothing was started.
var ErrSpec = errors.New("keeper: bad spec")

const (
	defaultGrace = 2 * time.Second
	defaultTerm  = time.Second
	maxNote      = 64 << 10
	maxID        = 256
)

// checkAndFill returns why a spec cannot be carried out, and fills in what was left out.
func (s *Spec) checkAndFill() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrSpec, fmt.Sprintf(format, args...))
	}
	switch {
	case s.ID == "" || len(s.ID) > maxID:
		return bad("the id has %d bytes, of 1 to %d", len(s.ID), maxID)
	case len(s.Note) > maxNote:
		return bad("the note has %d bytes, of at most %d", len(s.Note), maxNote)
	case len(s.Command) == 0 || s.Command[0] == "":
		return bad("it has no command")
	case s.Grace < 0 || s.Term < 0:
		return bad("a time is below zero")
	}
	for _, text := range append(append([]string{s.Dir}, s.Command...), s.Env...) {
		if strings.ContainsRune(text, 0) {
			return bad("the command, its directory or its environment has a byte of zero")
		}
	}
	for _, text := range s.Env {
		name, _, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return bad("the environment has %q, which is no name=value", name)
		}
		if name == MarkName {
			return bad("the environment has %s, which is the keeper's", MarkName)
		}
	}
	for name, mode := range map[string]Mode{"privileges": s.Confine.Privileges, "limits": s.Confine.Limits, "files": s.Confine.Files, "network": s.Confine.NoNetwork, "pids": s.Confine.OwnPIDs, "cgroup": s.Confine.Cgroup} {
		if mode != "" && mode != Off && !mode.on() {
			return bad("%s: %q is not off, try or require", name, mode)
		}
	}
	if s.Grace == 0 {
		s.Grace = defaultGrace
	}
	if s.Term == 0 {
		s.Term = defaultTerm
	}
	return nil
}

// MarkName is the variable in the environment of each process of a keeper, by which the next keeper finds what one has left that was killed. Its value is the boot that the keeper was
// started with, a hyphen, and a word for each process.
const MarkName = "TROUPE_KEPT"

// checkBoot returns why a boot cannot be in a mark.
func checkBoot(boot string) error {
	if boot == "" || len(boot) > 64 || strings.Trim(boot, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return fmt.Errorf("%w: the boot %q is not 1 to 64 letters, digits and underscores", ErrSpec, boot)
	}
	return nil
}

// A Status says how a process ended.
type Status struct {
	// Code is the exit status, and -1 if a signal ended the process. Nobody knows it if Unknown is set: another part of the program has reaped the process.
	Code    int    `json:"code"`
	Signal  string `json:"signal,omitempty"` // such as "killed"
	Unknown bool   `json:"unknown,omitempty"`

	// Reason says why the keeper ended it, if it did: empty if it ended by itself.
	Reason string `json:"reason,omitempty"`

	// Stderr has the last lines of its standard error, 20 at most, each cut at 4 KiB.
	Stderr []string `json:"stderr,omitempty"`

	// Last is the number of its last line, Begun that of the last line to it of which anything was written, and Written that of the last one that was written whole.
	Last    uint64 `json:"last"`
	Begun   uint64 `json:"begun"`
	Written uint64 `json:"written"`
}

// keeperEnds is the reason of a process that its keeper ends because it ends itself.
const keeperEnds = "the keeper ends"

// String returns the status in a few words.
func (s Status) String() string {
	text := fmt.Sprintf("exit status %d", s.Code)
	switch {
	case s.Unknown:
		text = "it ended, and nobody knows how"
	case s.Signal != "":
		text = "signal: " + s.Signal
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text
}

// A Kept is a process that a keeper has, as [Client.List] returns it.
type Kept struct {
	ID      string    `json:"id"`
	Note    string    `json:"note,omitempty"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Held    bool      `json:"held"` // whether it was started or adopted over this connection
	Ending  bool      `json:"ending"`
	Exited  bool      `json:"exited"` // whether it is gone, and kept for what it said last

	Received uint64 `json:"received"` // the last line to it that the keeper has
	Written  uint64 `json:"written"`  // the last one that is in its pipe
	Acked    uint64 `json:"acked"`    // the last line of it that was acknowledged
	Last     uint64 `json:"last"`     // the last line of it

	Memory int64 `json:"memory,omitempty"` // bytes of memory that it and its descendants have, each by itself; 0 where nobody asked, or knows
}
