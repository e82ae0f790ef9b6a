package toolschema

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
)

// memberNames are the names of the members that no plan names, of the objects that are open, each object's after those of the
// one around it. With them a plan finds a member that comes twice.
type memberNames struct {
	all    [][]byte
	table  []uint32     // places in all, from 1 on, by their hashes
	pooled *memberNames // where the memory comes from; nil before the first name
}

var (
	pooledNames = sync.Pool{New: func() any { return new(memberNames) }}
	nameSeed    = maphash.MakeSeed()
)

const (
	fewNames  = 8       // so many at most are compared each with each other
	keptNames = 1 << 10 // how many the pooled memory has room for at most
)

func (n *memberNames) addName(name []byte) {
	if n.pooled == nil {
		n.pooled = pooledNames.Get().(*memberNames)
		n.all, n.table = n.pooled.all, n.pooled.table
	}
	n.all = append(n.all, name)
}

// takeDistinct reports whether the names from first on, those of one object, differ from each other, and forgets them.
func (n *memberNames) takeDistinct(first int) (ok bool) {
	own := n.all[first:]
	n.all = n.all[:first]
	if len(own) > fewNames {
		ok = n.hashNames(own)
	} else {
		ok = compareNames(own)
	}
	clear(own)
	return ok
}

func compareNames(names [][]byte) bool {
	for i, name := range names {
		for _, other := range names[:i] {
			if string(name) == string(other) {
				return false
			}
		}
	}
	return true
}

func (n *memberNames) hashNames(names [][]byte) bool {
	size := 2 << bits.Len(uint(len(names)))
	n.table = slices.Grow(n.table[:0], size)[:size]
	clear(n.table)
	for i, name := range names {
		at := int(maphash.Bytes(nameSeed, name)) & (size - 1)
		for ; n.table[at] != 0; at = (at + 1) & (size - 1) {
			if string(names[n.table[at]-1]) == string(name) {
				return false
			}
		}
		n.table[at] = uint32(i + 1)
	}
	return true
}

// freeNames gives the memory back, without the names.
func (n *memberNames) freeNames() {
	if n.pooled == nil || cap(n.all) > keptNames {
		return
	}
	clear(n.all)
	n.pooled.all, n.pooled.table = n.all[:0], n.table
	pooledNames.Put(n.pooled)
}
