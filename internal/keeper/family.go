package keeper

// A procEntry is one process as the system lists it.
type procEntry struct {
	pid, parent, group, session int
	start                       uint64 // in ticks since the system started: with the pid it means one process for good
	zombie                      bool
}

// A family is a process that was started here, with its descendants.
type family struct {
	root    int            // its pid, which is also its group's and its session's
	reaped  bool           // whether the root is gone, so that its pid may be another's
	start   uint64         // of the root
	mark    string         // in the environment of each, unless one has made itself another
	members map[int]uint64 // the members that were seen last, by pid: their starts
}

// A genealogy finds out which family a process belongs to.
type genealogy struct {
	all      map[int]procEntry
	children map[int][]int
	of       map[int]*family // by pid
}

// attribute says to whom the descendants of a keeper belong. Children of a member are members; so is whoever was one before, has the family's mark, or is in its session or group. That misses
// only a process that has left its session and its parents and has another environment. A keeper is the parent of those, too: keeper is its pid, and such a stray belongs to the only family that it can be from,
// or to nil if that one is gone. With a keeper of zero, who is no parent of orphans, there are no strays. marked returns the mark in a process' environment.
func attribute(all map[int]procEntry, keeper int, families []*family, marked func(pid int) string) map[*family][]procEntry {
	g := genealogy{all: all, children: map[int][]int{}, of: map[int]*family{}}
	for pid, p := range all {
		g.children[p.parent] = append(g.children[p.parent], pid)
	}
	byMark := map[string]*family{}
	for _, f := range families {
		byMark[f.mark] = f
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
	orphans := g.orphans(keeper)
	for _, pid := range orphans {
		if f := byMark[marked(pid)]; f != nil && g.of[pid] == nil {
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
			if g.of[pid] == nil {
				g.adoptStray(pid, families, found)
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

// adoptStray gives a process to the only family that is as old as it, or to nobody's if there is none. If there are several it waits until fewer are left.
func (g *genealogy) adoptStray(pid int, families []*family, found map[*family][]procEntry) {
	var only *family
	n := 0
	for _, f := range families {
		if f.start <= g.all[pid].start {
			only = f
			n++
		}
	}
	switch n {
	case 0:
		found[nil] = append(found[nil], g.all[pid])
	case 1:
		g.of[pid] = only
		g.spread(pid)
	}
}
