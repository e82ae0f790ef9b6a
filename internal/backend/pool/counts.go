package pool

// Counts are how many instances of a backend there are in each state, and how many wants wait.
type Counts struct {
	Starting, Idle, Serving, Stopping int
	Waiting                           int
}

// Counts returns those of each backend, by its name.
func (s *stock) Counts() map[string]Counts {
	all := make(map[string]Counts, len(s.backends))
	for name, b := range s.backends {
		c := Counts{Waiting: b.waiting}
		for _, of := range b.instances {
			for _, in := range of {
				switch {
				case in.state == starting:
					c.Starting++
				case in.state == stopping:
					c.Stopping++
				case len(in.serves) > 0:
					c.Serving++
				default:
					c.Idle++
				}
			}
		}
		all[name] = c
	}
	return all
}
