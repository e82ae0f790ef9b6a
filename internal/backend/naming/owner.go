package naming

// A Conflict is a URI, or a name, that two have.
type Conflict struct {
	Key    string
	First  int // who has it
	Second int // whose is hidden
}

// Own settles whose each key is, where several may have the same: URIs, URI templates, or names without a prefix. lists
// has the keys of each, in the order that decides: the server's own items, then the backends as the configuration has
// them. It returns the list that has each key, and the conflicts in the order of the lists. A key that comes twice in
// one list is no conflict.
func Own(lists [][]string) (owner map[string]int, conflicts []Conflict) {
	owner = make(map[string]int)
	type pair struct {
		key    string
		second int
	}
	var seen map[pair]bool
	for i, keys := range lists {
		for _, key := range keys {
			first, taken := owner[key]
			switch {
			case !taken:
				owner[key] = i
			case first != i && !seen[pair{key, i}]:
				if seen == nil {
					seen = make(map[pair]bool)
				}
				seen[pair{key, i}] = true
				conflicts = append(conflicts, Conflict{key, first, i})
			}
		}
	}
	return owner, conflicts
}
