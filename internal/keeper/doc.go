// Package keeper has the processes of servers that somebody else wrote outlive the process that uses them. A keeper is a process of its own: the parent of all of them, with their pipes. It knows lines and
// numbers, and nothing of what the lines mean, so that it need not be replaced with a release. docs/design/027 says why.
//
//	serve ── Client ══ UNIX socket ══ engine ── pipes ── processes, and what they have started
//	         Process                  (Main)
//
// [Join] connects to a keeper, and starts one where there is none. [Client.Start] starts a process, [Client.List] and [Client.Adopt] take over those that are there, and [Process.Remember] keeps what whoever takes them
// over needs to know. [StartEmbedded] has the same without a keeper, for a program that cannot start one: its processes end with it.
//
//	c, err := keeper.Join(ctx, keeper.Options{Socket: socket}, keeper.Launch{Program: []string{troupe, "keeper"}})
//	p, err := c.Start(ctx, keeper.Spec{ID: "a", Command: []string{"npx", "-y", "server"}, Env: env})
//	n, err := p.Send(ctx, line)
//	line, err := p.Receive(ctx)
//	p.Ack(line.Number)
//
// # Lines
//
// A line to a process is numbered by the client, and acknowledged by the keeper once it is wholly in the pipe: what is not acknowledged was not handed over, unless a part of it was written when the process
// ended ([Process.Fate]). A line of a process is numbered by the keeper, which keeps it until [Process.Ack]. When the connection breaks, the client connects again; both sides say the last number that they have,
// and the rest is sent again. Nothing is lost, nothing comes twice, and the order stays. Another client that adopts the process gets all lines that were not acknowledged, and sends on after the last line that
// the keeper got from the one before.
//
// Lines have at most [MaxLine]; a process that writes a longer one is ended, and its [Status] says so. [Window] bytes of a process may wait to be acknowledged in each direction: then its output is not read, and Send
// waits. No process holds up another. Standard error is relayed line by line, as many as a rate allows, and its last lines are part of the status.
//
// # The end of a process
//
//	running ──▶ asked ──▶ terminated ──▶ killing ──▶ gone
//	   │          input closed  SIGTERM      SIGKILL    nobody is left, and the status is told
//	   └────────▶ when the process itself ends, half a second is left for each step
//
// A process is ended by [Process.Stop], by its own end, by a line that is too long, by a client that does not come back, or with its keeper. Its end is that of all that it has started. A
// keeper is a subreaper: whoever loses its parent becomes its child, and is reaped. Whose somebody is, it knows by the parents; by who was a child before; by a badge, a limit that each family has of its own and that nobody can take
// off; by the mark in the environment ([MarkName]); and by session and group. A process is signalled by its file descriptor, so that nobody is hit who has got its number.
//
// A keeper that is killed takes its children with it, by the system. The next one at its socket finds the rest by their marks, before it can be used; so does who has started it, if it has no socket. They
// have the boot in them: a word that all keepers of one socket have, beside which it is stored.
//
// # Who has a keeper
//
// One client at a time, of the same user and not below the keeper: the newest, and the one before gets [ErrReplaced]. A process that is kept cannot use its keeper, as it may be confined and what it would have started is not. When it is gone, its processes are kept for a while ([Launch.Keep]) for the next one, and then
// ended; [Client.Bye] says for how long otherwise. A keeper without a client and without processes ends at once, unless it was told to stay (--stay); before its first client it waits for as long as it keeps. It does not hear SIGINT, SIGHUP and SIGQUIT, which are for the terminal's programs; SIGTERM ends it, and
// all that it has.
//
// # Releases
//
// The two ends may be of different releases: [Main] and [Client] agree on the newest version that both speak. A frame, or a member of one, that the other does not know is refused by its name
// ([ErrUnknown]), and nothing else happens: whoever relies on it has to know. What a later release adds it sends only under a later version.
//
// # Confinement
//
// See [Confine]. Core dumps are off, and a child gets no file and no variable that its [Spec] does not name. The rest is off, tried or required, and what is required and cannot be had is an error that says what the system
// answered ([ErrConfine]). Rlimits and Landlock are set by the process itself before it becomes the program: the keeper's own program runs once more for that, with the argument "exec".
//
// # Systems
//
// On Linux all of this holds. On other UNIX systems there are no subreapers, no badges, no list of processes and no confinement: the end of a process is that of its group, descendants that leave it are
// lost, a keeper that is killed leaves its children to the end of their input, and the next one finds nobody. On Windows nothing is kept: every function that can fail returns ErrSystem.
//
// # Goroutines
//
// All exported functions and methods are safe for concurrent use; the lines of a process should be received by one goroutine, or their order says nothing. What decides is pure: sentLines, receivedLines, handover,
// stopping, custody, complaints and attribute know neither clock nor system.
package keeper
