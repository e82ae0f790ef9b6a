package keeper

// A procEntry is one process as the system lists it.
type procEntry struct {
	pid, parent, group, session int
	start                       uint64 // in ticks since the system started: with the pid it means one process for good
	zombie                      bool
	pages                       int64 // of memory that it has
}

// A family is a process that was started here, with its descendants.
type family struct {
	root    int            // its pid, which is also its group's and its session's
	reaped  bool           // whether the root is gone, so that its pid may be another's
	start   uint64         // of the root
	mark    string         // in the environment of each, unless one has made itself another
	badge   uint64         // which each has, unless the system has none: see setNewBadge
	members map[int]uint64 // the members that were seen last, by pid: their starts
}

// A genealogy finds out which family a process belongs to.
type genealogy struct {
	all      map[int]procEntry
	children map[int][]int
	of       map[int]*family // by pid
}

// An origin is what a process tells of where it comes from, beside its parent.
type origin struct {
	mark  string
	badge uint64
}

// attribute says to whom the descendants of a keeper belong. Children of a member are members; so is whoever was one before, has the family's mark or badge, or is in its session or group. keeper is the pid
// of the parent of all orphans: an orphan with a badge of no family belongs to one that is gone, and so to nil. With a keeper of zero all processes are looked at, and none is nil's.
func attribute(all map[int]procEntry, keeper int, families []*family, origins map[int]origin) map[*family][]procEntry {
	g := genealogy{all: all, children: map[int][]int{}, of: map[int]*family{}}
	for pid, p := range all {
		g.children[p.parent] = append(g.children[p.parent], pid)
	}
	byMark, byBadge := map[string]*family{}, map[uint64]*family{}
	for _, f := range families {
		byMark[f.mark], byBadge[f.badge] = f, f
		if p, ok := all[f.root]; ok && !f.reaped {
			f.start = p.start
			g.of[f.root] = f
		}
	}
	for _, f := range families {
		if !f.reaped {
			g.spread(f.root)
		}
	}
	for _, f := range families {
		for pid, start := range f.members {
			if p, ok := all[pid]; ok && p.start == start && g.of[pid] == nil {
				g.of[pid] = f
				g.spread(pid)
			}
		}
	}
	delete(byBadge, 0)
	orphans := g.orphans(keeper)
	for _, pid := range orphans {
		f := byBadge[origins[pid].badge]
		if f == nil {
			f = byMark[origins[pid].mark]
		}
		if f != nil && g.of[pid] == nil {
			g.of[pid] = f
			g.spread(pid)
		}
	}
	for _, pid := range orphans {
		if p := all[pid]; g.of[pid] == nil {
			for _, f := range families {
				if (p.session == f.root || p.group == f.root) && p.start >= f.start {
					g.of[pid] = f
					g.spread(pid)
					break
				}
			}
		}
	}
	found := map[*family][]procEntry{}
	if keeper != 0 {
		for _, pid := range orphans {
			if g.of[pid] == nil && origins[pid].badge != 0 {
				found[nil] = append(found[nil], all[pid])
			}
		}
	}
	for pid, f := range g.of {
		if f != nil {
			found[f] = append(found[f], all[pid])
		}
	}
	for _, f := range families {
		f.members = map[int]uint64{}
		for _, p := range found[f] {
			f.members[p.pid] = p.start
		}
	}
	return found
}

// descendsFrom reports whether a process is below a keeper, or may be. read says what the system tells of a process. Whoever loses its parent meanwhile has the keeper as the next one, and it begins again. Where
// the system hides the process or one of those above it, as it may if they are in another user namespace or have it so, badged says whether it has a badge, as all have that a keeper has started.
func descendsFrom(pid, keeper int, read func(pid int) (procEntry, bool), badged func(pid int) bool) bool {
	child := 0
	for at := pid; at > 1; {
		if at == keeper {
			return true
		}
		p, ok := read(at)
		if ok {
			child, at = at, p.parent
			continue
		}
		if at == pid {
			return badged(pid)
		}
		if c, ok := read(child); ok && c.parent == at {
			return badged(pid)
		}
		at = pid
	}
	return false
}

// spread gives the descendants of a process its family, unless they have one.
func (g *genealogy) spread(pid int) {
	for _, child := range g.children[pid] {
		if g.of[child] == nil && child != pid {
			g.of[child] = g.of[pid]
			g.spread(child)
		}
	}
}

// orphans returns the processes without a family whose parent tells nothing: those of the keeper, or all.
func (g *genealogy) orphans(keeper int) []int {
	var all []int
	if keeper != 0 {
		for _, pid := range g.children[keeper] {
			if g.of[pid] == nil {
				all = append(all, pid)
			}
		}
		return all
	}
	for pid := range g.all {
		if g.of[pid] == nil {
			all = append(all, pid)
		}
	}
	return all
}
