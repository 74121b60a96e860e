package node

// applyEarly is the planted bug apply_before_commit: what was handed to the
// journal in the last turn is applied and answered in this one, synced or not.
func (n *Node) applyEarly() {
	b := n.early
	if b == nil {
		return
	}
	n.early = nil
	for i := range b.Entries() {
		e := b.Entry(i)
		n.apply(&e)
	}
}
