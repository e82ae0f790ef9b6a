package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// tasks is the stream of tasks. A task is a record, under the key task.<tenant>.<server>.<task>, and
// parts beside it, whose subjects continue the key.
const tasks = "tasks"

// MaxPart is the size limit of one part of a task in bytes; it is stored in several messages.
const MaxPart = 16 << 20

// partSubject returns the subject of one message of a part.
func (n *Node) partSubject(task, name string, i int) string {
	subject := n.subjectOf("task." + task + "." + name)
	if i == 0 {
		return subject
	}
	return subject + "." + strconv.Itoa(i)
}

// checkPart refuses invalid names of a task or a part.
func (n *Node) checkPart(task, name string) error {
	switch {
	case n.leaving.Load():
		return store.ErrClosed
	case !validTokens(task, 3) || !validTokens(name, 1):
		return fmt.Errorf("%w: part %q of task %q", store.ErrBadKey, name, task)
	}
	return nil
}

// PutPart stores a part of a task for ttl, if the task's record has revision rev; a rev of 0 says that there is no
// record yet. It replaces a part of that name. ErrFenced: the record has another revision. After
// ErrFenced and ErrUnavailable some of the part may be stored; storing it again repairs that.
func (n *Node) PutPart(ctx context.Context, task, name string, data []byte, rev uint64, ttl time.Duration) error {
	err := n.checkPart(task, name)
	if err == nil && len(data) > MaxPart {
		err = store.ErrTooBig
	}
	if err == nil {
		g := guard{subject: n.subjectOf("task." + task), seq: rev}
		err = n.putMessages(ctx, func(i int) string { return n.partSubject(task, name, i) }, data, g, ttl)
	}
	if err != nil {
		return fmt.Errorf("cluster: store %s of task %s: %w", name, task, err)
	}
	n.countWritten(store.TaskBudget, len(data))
	return nil
}

// Part reads a part of a task from the leader. ErrNotFound: there is none, or some of it is missing.
func (n *Node) Part(ctx context.Context, task, name string) ([]byte, error) {
	err := n.checkPart(task, name)
	var data []byte
	if err == nil {
		data, err = n.getMessages(ctx, tasks, func(i int) string { return n.partSubject(task, name, i) }, MaxPart)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: %s of task %s: %w", name, task, err)
	}
	return data, nil
}

// DropPart deletes a part of a task, whose size is at most so many bytes; without a name it deletes all parts. The record stays. What is not there
// is no error.
func (n *Node) DropPart(ctx context.Context, task, name string, size int) error {
	filters := []string{n.subjectOf("task." + task + ".>")}
	err := n.checkPart(task, cmp.Or(name, "all"))
	if name != "" {
		filters = []string{n.partSubject(task, name, 0)}
		if size > bodyPart {
			filters = append(filters, filters[0]+".>")
		}
	}
	for _, f := range filters {
		if err == nil {
			err = n.askAPI(ctx, "STREAM.PURGE."+n.streamName(tasks), map[string]any{"filter": f}, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("cluster: drop %s of task %s: %w", cmp.Or(name, "all parts"), task, err)
	}
	return nil
}

// PartsSince reports whether a part of a task was stored after a revision.
func (n *Node) PartsSince(ctx context.Context, task string, rev uint64) (bool, error) {
	err := n.checkPart(task, "any")
	var s stored
	if err == nil {
		s, err = n.lastMessage(ctx, n.streamName(tasks), n.subjectOf("task."+task+".>"))
	}
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cluster: parts of task %s: %w", task, err)
	}
	return s.seq > rev, nil
}

// Tasks returns at most limit tasks of a tenant and server whose records have a revision of at least from, in the order of
// their revisions. Each change of a record gives it a new revision: a task that changes while pages are read
// may come twice, and never not at all. A record that cannot be read is left out.
func (n *Node) Tasks(ctx context.Context, tenant, server string, from uint64, limit int) ([]store.Task, error) {
	if !validTokens(tenant, 1) || !validTokens(server, 1) {
		return nil, fmt.Errorf("cluster: list tasks: %w: tasks of %q and %q", store.ErrBadKey, tenant, server)
	}
	filter := n.subjectOf("task." + tenant + "." + server + ".*")
	return n.listTasks(ctx, filter, from, limit)
}

// AllTasks is Tasks for all tenants and servers.
func (n *Node) AllTasks(ctx context.Context, from uint64, limit int) ([]store.Task, error) {
	return n.listTasks(ctx, n.subjectOf("task.*.*.*"), from, limit)
}

func (n *Node) listTasks(ctx context.Context, filter string, from uint64, limit int) (found []store.Task, err error) {
	err = n.walkRecords(ctx, tasks, filter, from, limit, func(subject string, rev uint64, data []byte) {
		found = append(found, n.storedTask(subject, rev, data))
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: list tasks: %w", err)
	}
	return found, nil
}

// storedTask is the task of a record's subject.
func (n *Node) storedTask(subject string, rev uint64, data []byte) store.Task {
	t := n.tokensOf(subject)
	return store.Task{Tenant: t[1], Server: t[2], ID: t[3], Rev: rev, Data: data}
}

// FindTask returns the tenant and the server of a task by its id. ErrNotFound: there is none.
func (n *Node) FindTask(ctx context.Context, id string) (tenant, server string, err error) {
	var found map[string]uint64
	if validTokens(id, 1) {
		found, err = n.listSubjects(ctx, tasks, "task.*.*."+id)
	}
	for subject := range found {
		t := n.storedTask(subject, 0, nil)
		return t.Tenant, t.Server, nil
	}
	if err == nil {
		err = store.ErrNotFound
	}
	return "", "", fmt.Errorf("cluster: find task: %w", err)
}

// Parts lists the names of a task's parts.
func (n *Node) Parts(ctx context.Context, task string) (names []string, err error) {
	err = n.checkPart(task, "any")
	var subjects map[string]uint64
	if err == nil {
		subjects, err = n.listSubjects(ctx, tasks, "task."+task+".*")
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("cluster: parts of task %s: %w", task, err)
	}
	for subject := range subjects {
		names = append(names, subject[strings.LastIndexByte(subject, '.')+1:])
	}
	return names, nil
}

// PartHead reads the beginning of a part of a task, and how many bytes the part has.
func (n *Node) PartHead(ctx context.Context, task, name string) (head []byte, size int, err error) {
	if err = n.checkPart(task, name); err == nil {
		head, _, err = n.getRecord(ctx, n.streamName(tasks), n.partSubject(task, name, 0))
	}
	if err == nil && len(head) < 4 {
		err = store.ErrDamaged
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cluster: %s of task %s: %w", name, task, err)
	}
	return head[4:], int(binary.BigEndian.Uint32(head)), nil
}
