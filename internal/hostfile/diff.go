package hostfile

import "slices"

// Changes are what a new file makes of the backends of an old one, by name, in the order of the new one. Those that are the
// same are in none of the lists, and keep their instances.
type Changes struct {
	Added []string
	// Removed are gone, or disabled.
	Removed []string
	// Replaced have another digest: their instances must end.
	Replaced []string
	// Adjusted have the same digest and other options: their instances stay.
	Adjusted []string
	// Broken were there, and cannot be used as the new file has them: what is there may stay as it was.
	Broken []string
	// Reordered says that those that are in both files have another order.
	Reordered bool
}

// Any reports whether there is any change.
func (c Changes) Any() bool {
	return c.Reordered || len(c.Added)+len(c.Removed)+len(c.Replaced)+len(c.Adjusted)+len(c.Broken) > 0
}

// Diff compares two files. Backends that are disabled, or wrong in the old one, count as not there.
func Diff(was, is *File) (c Changes) {
	before := make(map[string]Backend)
	var order []string // of those that are in both, as the old file has them
	for _, b := range was.Backends {
		if b.Usable() {
			before[b.Name] = b
		}
	}
	seen := make(map[string]bool)
	var now []string
	for _, b := range is.Backends {
		if b.Disabled || seen[b.Name] {
			continue
		}
		seen[b.Name] = true
		old, known := before[b.Name]
		switch {
		case known && b.Err != nil:
			c.Broken = append(c.Broken, b.Name)
		case b.Err != nil:
			continue
		case !known:
			c.Added = append(c.Added, b.Name)
			continue
		case old.Digest() != b.Digest():
			c.Replaced = append(c.Replaced, b.Name)
		case !sameOptions(old, b):
			c.Adjusted = append(c.Adjusted, b.Name)
		}
		now = append(now, b.Name)
	}
	for _, b := range was.Backends {
		switch {
		case !b.Usable():
		case seen[b.Name]:
			order = append(order, b.Name)
		default:
			c.Removed = append(c.Removed, b.Name)
		}
	}
	c.Reordered = !slices.Equal(order, now)
	return c
}
