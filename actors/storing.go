package actors

// nearFull reports that so much of a budget is in use that nothing new may be stored: what
// is there needs the rest.
func (n *Node) nearFull(b Budget) bool {
	used, limit := n.store.Use(b)
	return limit > 0 && used > limit/10*9
}
