package naming

// A Filter says which items there are, by patterns for their names without a prefix. In a pattern * stands for any text,
// the empty one included, and ? for one byte; everything else stands for itself.
type Filter struct {
	Allow []string // empty allows all
	Deny  []string // goes before Allow
}

// Allows reports whether there is an item.
func (f Filter) Allows(item string) bool {
	return (len(f.Allow) == 0 || Matches(f.Allow, item)) && !Matches(f.Deny, item)
}

// Matches reports whether one of the patterns matches a name.
func Matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if match(p, name) {
			return true
		}
	}
	return false
}

// match takes time in proportion to the product of both lengths at most: after a mismatch only the last * is tried anew.
func match(pattern, name string) bool {
	p, n := 0, 0
	star, tried := -1, 0 // the last *, and the first byte of the name that it does not stand for
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, tried = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			tried++
			p, n = star+1, tried
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
