package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// Reader reads tasks and what is stored beside them.
type Reader struct{ records }

// StepLook is what is known of a stored step without its value.
type StepLook struct {
	Step
	Size int // bytes that are stored of it
}

// Maker returns who has made a task, as the store has that, and nil once nothing can run the task
// again.
func (rd *Reader) Maker(ctx context.Context, key Key) (json.RawMessage, error) {
	var r Request
	if _, err := rd.readRequest(ctx, key, &r); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return r.Principal, nil
}

// Find returns the key of a task by its id. ErrUnknown: there is none.
func (rd *Reader) Find(ctx context.Context, id string) (Key, error) {
	key := Key{ID: id}
	if !key.Valid() {
		return Key{}, ErrUnknown
	}
	tenant, server, err := rd.store.FindTask(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Key{}, ErrUnknown
	}
	return Key{tenant, server, id}, err
}

// Steps returns what is known of a task's stored steps, in the order in which they began, and how
// many there are. It reads at most limit.
func (rd *Reader) Steps(ctx context.Context, key Key, limit int) (steps []StepLook, all int, err error) {
	names, err := rd.store.Parts(ctx, key.path())
	if err != nil {
		return nil, 0, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, stepPrefix) })
	slices.Sort(names)
	for _, name := range names[:min(len(names), limit)] {
		head, size, err := rd.store.PartHead(ctx, key.path(), name)
		if errors.Is(err, store.ErrNotFound) { // the task has expired meanwhile
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		s, err := stepHead(head)
		if err != nil { // the value comes before the rest, as the first releases wrote it
			if s, err = rd.wholeStep(ctx, key, name); err != nil {
				return nil, 0, err
			}
		}
		steps = append(steps, StepLook{s, size})
	}
	slices.SortStableFunc(steps, func(a, b StepLook) int { return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Name, b.Name)) })
	return steps, len(names), nil
}

func (rd *Reader) wholeStep(ctx context.Context, key Key, name string) (s Step, err error) {
	data, err := rd.store.Part(ctx, key.path(), name)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	s.Value = nil
	return s, err
}

// stepHead reads the members of a step before its value, which may be cut off.
func stepHead(head []byte) (s Step, err error) {
	if i := bytes.Index(head, []byte(`,"value":`)); i >= 0 { // in a text it would have a backslash
		head = append(head[:i:i], '}')
	}
	if err = json.Unmarshal(head, &s); err == nil && s.Began == 0 {
		err = errors.New("worker: a step whose value comes first")
	}
	s.Value = nil // of one that is whole
	return s, err
}

// Get reads a task. ErrUnknown: there is none, or it has expired.
func (rd *Reader) Get(ctx context.Context, key Key) (Snapshot, error) {
	r, rev, err := rd.readForClient(ctx, key)
	if err == nil && r.Outcome != nil && r.Outcome.Parts > 0 {
		o := *r.Outcome
		o.Value, err = rd.store.Part(ctx, key.path(), outcomePart)
		r.Outcome = &o
	}
	if errors.Is(err, store.ErrNotFound) {
		return Snapshot{}, ErrUnknown
	}
	return Snapshot{key, r, rev}, err
}

// List returns at most limit tasks of a tenant, from a revision on, and the revision from which the
// next page goes on; 0 if there is none.
func (rd *Reader) List(ctx context.Context, tenant, server string, from uint64, limit int) (all []Snapshot, next uint64, err error) {
	stored, err := rd.store.ListTasks(ctx, tenant, server, from, limit+1)
	for i := range stored {
		stored[i].Tenant, stored[i].Server = tenant, server
	}
	return rd.decodePage(stored, limit, err)
}

// All returns at most limit tasks of all tenants and servers, like [Reader.List].
func (rd *Reader) All(ctx context.Context, from uint64, limit int) (all []Snapshot, next uint64, err error) {
	stored, err := rd.store.AllTasks(ctx, from, limit+1)
	return rd.decodePage(stored, limit, err)
}

// decodePage returns the tasks of a page, and the revision of the first that is too many for it.
func (rd *Reader) decodePage(stored []Stored, limit int, err error) (all []Snapshot, next uint64, _ error) {
	for i, st := range stored {
		if i == limit {
			return all, st.Rev, err
		}
		if r, err := task.Decode(st.Data); err == nil && r.TimeLeft(rd.store.Now()) > 0 {
			all = append(all, Snapshot{Key{st.Tenant, st.Server, st.ID}, r, st.Rev})
		}
	}
	return all, 0, err
}

// readRequest reads the request of a task, and returns its size as it is stored. ErrNotFound: it is
// not there, or cannot be read.
func (rd *Reader) readRequest(ctx context.Context, key Key, req *Request) (size int, err error) {
	data, err := rd.store.Part(ctx, key.path(), requestPart)
	if err == nil {
		if err = json.Unmarshal(data, req); err != nil {
			err = fmt.Errorf("worker: request of a task: %w: %w", store.ErrNotFound, err)
		}
	}
	return len(data), err
}
