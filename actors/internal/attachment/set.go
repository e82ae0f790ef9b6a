package attachment

import (
	"maps"
	"slices"
	"sync"
)

// Set is the attachments of a process whose connections are open. The zero value is empty.
type Set[K any] struct {
	mu  sync.Mutex // guards all
	all map[*Attachment[K]]struct{}
}

func (s *Set[K]) addAttachment(a *Attachment[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*Attachment[K]]struct{})
	}
	s.all[a] = struct{}{}
}

func (s *Set[K]) dropAttachment(a *Attachment[K]) {
	s.mu.Lock()
	delete(s.all, a)
	s.mu.Unlock()
}

// Snapshot returns the attachments.
func (s *Set[K]) Snapshot() []*Attachment[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq(make([]*Attachment[K], 0, len(s.all)), maps.Keys(s.all))
}

// Len is the number of attachments.
func (s *Set[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
