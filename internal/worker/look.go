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

// StepLook is what is known of a stored step without its value.
type StepLook struct {
	Step
	Size int // bytes that are stored of it
}

// All returns at most limit tasks of all tenants and servers, like [Pool.List].
func (p *Pool) All(ctx context.Context, from uint64, limit int) (all []Snapshot, next uint64, err error) {
	stored, err := p.Store.AllTasks(ctx, from, limit+1)
	if err != nil {
		return nil, 0, err
	}
	for i, st := range stored {
		if i == limit {
			return all, st.Rev, nil
		}
		r, err := task.Decode(st.Data)
		if err != nil || r.Left(p.Store.Now()) == 0 {
			continue
		}
		all = append(all, Snapshot{Key{st.Tenant, st.Server, st.ID}, r, st.Rev})
	}
	return all, 0, nil
}

// Maker returns who has made a task, as the store has that, and nil once nothing can run the task again.
func (p *Pool) Maker(ctx context.Context, key Key) (json.RawMessage, error) {
	var r Request
	if _, err := p.request(ctx, key, &r); err != nil && !errors.Is(err, errNoRequest) {
		return nil, err
	}
	return r.Principal, nil
}

// Find returns the key of a task by its id. ErrUnknown: there is none.
func (p *Pool) Find(ctx context.Context, id string) (Key, error) {
	key := Key{ID: id}
	if !key.Valid() {
		return Key{}, ErrUnknown
	}
	tenant, server, err := p.Store.FindTask(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Key{}, ErrUnknown
	}
	return Key{tenant, server, id}, err
}

// Steps returns what is known of a task's stored steps, in the order in which they began, and how many there are. It reads at most limit.
func (p *Pool) Steps(ctx context.Context, key Key, limit int) (steps []StepLook, all int, err error) {
	names, err := p.Store.Parts(ctx, key.path())
	if err != nil {
		return nil, 0, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, stepPrefix) })
	slices.Sort(names)
	for _, name := range names[:min(len(names), limit)] {
		head, size, err := p.Store.PartHead(ctx, key.path(), name)
		if errors.Is(err, store.ErrNotFound) { // the task has expired meanwhile
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		s, err := stepHead(head)
		if err != nil { // the value comes before the rest, as the first releases wrote it
			if s, err = p.wholeStep(ctx, key, name); err != nil {
				return nil, 0, err
			}
		}
		steps = append(steps, StepLook{s, size})
	}
	slices.SortStableFunc(steps, func(a, b StepLook) int { return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Name, b.Name)) })
	return steps, len(names), nil
}

func (p *Pool) wholeStep(ctx context.Context, key Key, name string) (s Step, err error) {
	data, err := p.Store.Part(ctx, key.path(), name)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	s.Value = nil
	return s, err
}

// stepHead reads the members of a step before its value, which may be cut off.
func stepHead(head []byte) (s Step, err error) {
	d := json.NewDecoder(bytes.NewReader(head))
	if _, err := d.Token(); err != nil {
		return s, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return s, err
		}
		var into any
		switch name {
		case "name":
			into = &s.Name
		case "failed":
			into = &s.Failed
		case "attempt":
			into = &s.Attempt
		case "began":
			into = &s.Began
		case "took":
			into = &s.Took
		case "value":
			if s.Began == 0 {
				return s, fmt.Errorf("worker: a step whose value comes first")
			}
			return s, nil
		default:
			into = new(json.RawMessage)
		}
		if err := d.Decode(into); err != nil {
			return s, err
		}
	}
	return s, nil
}
