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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-run/troupe/internal/store"
)

// MaxPart is the size limit of one part of a task in bytes; it is stored in several messages.
const MaxPart = 16 << 20

// Tasks keeps what tasks have beside their records, and their work: see store.Tasks.
type Tasks struct {
	*workStore
	*usage
}

// partSubject returns the subject of one message of a part.
func (n *Tasks) partSubject(task, name string, i int) string {
	subject := n.subjectOf("task." + task + "." + name)
	if i == 0 {
		return subject
	}
	return subject + "." + strconv.Itoa(i)
}

// checkPart refuses invalid names of a task or a part.
func (n *Tasks) checkPart(task, name string) error {
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
func (n *Tasks) PutPart(ctx context.Context, task, name string, data []byte, rev uint64, ttl time.Duration) error {
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
func (n *Tasks) Part(ctx context.Context, task, name string) ([]byte, error) {
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
func (n *Tasks) DropPart(ctx context.Context, task, name string, size int) error {
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
func (n *Tasks) PartsSince(ctx context.Context, task string, rev uint64) (bool, error) {
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

// ListTasks returns at most limit tasks of a tenant and server whose records have a revision of at least from, in the order of
// their revisions. Each change of a record gives it a new revision: a task that changes while pages are read
// may come twice, and never not at all. A record that cannot be read is left out.
func (n *Tasks) ListTasks(ctx context.Context, tenant, server string, from uint64, limit int) ([]store.Task, error) {
	if !validTokens(tenant, 1) || !validTokens(server, 1) {
		return nil, fmt.Errorf("cluster: list tasks: %w: tasks of %q and %q", store.ErrBadKey, tenant, server)
	}
	filter := n.subjectOf("task." + tenant + "." + server + ".*")
	return n.listTasks(ctx, filter, from, limit)
}

// AllTasks is ListTasks for all tenants and servers.
func (n *Tasks) AllTasks(ctx context.Context, from uint64, limit int) ([]store.Task, error) {
	return n.listTasks(ctx, n.subjectOf("task.*.*.*"), from, limit)
}

func (n *Tasks) listTasks(ctx context.Context, filter string, from uint64, limit int) (found []store.Task, err error) {
	err = n.walkRecords(ctx, tasks, filter, from, limit, func(subject string, rev uint64, data []byte) {
		found = append(found, n.storedTask(subject, rev, data))
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: list tasks: %w", err)
	}
	return found, nil
}

// storedTask is the task of a record's subject.
func (n *Tasks) storedTask(subject string, rev uint64, data []byte) store.Task {
	t := n.tokensOf(subject)
	return store.Task{Tenant: t[1], Server: t[2], ID: t[3], Rev: rev, Data: data}
}

// FindTask returns the tenant and the server of a task by its id. ErrNotFound: there is none.
func (n *Tasks) FindTask(ctx context.Context, id string) (tenant, server string, err error) {
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
func (n *Tasks) Parts(ctx context.Context, task string) (names []string, err error) {
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
func (n *Tasks) PartHead(ctx context.Context, task, name string) (head []byte, size int, err error) {
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

const (
	// workWait is for how long a worker may say nothing of its work before another one gets it, and replicatedWait the same on replicated
	// streams. An election may take longer than that: then a second attempt begins, and fences the first.
	workWait       = 5 * time.Second
	replicatedWait = 8 * time.Second
	// maxWork is how many messages of a server workers may have at a time, on all nodes together, where the servers allow so many.
	maxWork = 200_000
	// consumerIdle is after which time the servers remove the consumer of a server that no node serves. It is made again where there is work.
	consumerIdle = 24 * time.Hour
	// maxConsumers bounds the servers of a store that have tasks, each of which has a consumer.
	maxConsumers = 4096
)

// workStore keeps the queue of what tasks have to run.
type workStore struct{ *messages }

// Offer stores that a task of a server has something to run, for ttl, and returns the number of that work: a later one has a higher one, until the
// stream is lost. It may be offered twice: the task's record says what there is to do. From tells apart those who share the tenant; it may be empty.
func (n *workStore) Offer(ctx context.Context, tenant, server, task, from string, ttl time.Duration) (seq uint64, err error) {
	what := tenant + "." + task
	if from != "" {
		what += "." + from
	}
	switch {
	case n.leaving.Load():
		err = store.ErrClosed
	case !validTokens(tenant, 1) || !validTokens(server, 1) || !validTokens(task, 1) || from != "" && !validTokens(from, 1):
		err = fmt.Errorf("%w: task %q of %q and %q", store.ErrBadKey, task, tenant, server)
	default:
		seq, err = n.putMessage(ctx, n.subjectOf("work."+server), []byte(what), ttl, guard{any: true})
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: offer task %s: %w", task, err)
	}
	return seq, nil
}

// HasWork reports whether the work seq of a task is stored. Other work may have its number, where the stream was lost or is as it was earlier. On replicated servers "no" is
// certain only if it was asked after a write to the stream, as [Node.Offer] is: a leader that was replaced answers reads for a while.
func (n *workStore) HasWork(ctx context.Context, tenant, server, task string, seq uint64) (bool, error) {
	var r struct {
		Message struct {
			Subject string `json:"subject"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	err := store.ErrNotFound
	if seq > 0 {
		err = n.askAPI(ctx, "STREAM.MSG.GET."+n.streamName(work), map[string]any{"seq": seq}, &r)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("cluster: work of task %s: %w", task, err)
	}
	of, id, _ := parseWork(r.Message.Data)
	return err == nil && r.Message.Subject == n.subjectOf("work."+server) && of == tenant && id == task, nil
}

// Withdraw removes work that was offered, whoever has it. What is not there is no error.
func (n *workStore) Withdraw(ctx context.Context, seq uint64) error {
	err := n.deleteMessage(ctx, n.streamName(work), seq)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("cluster: withdraw work: %w", err)
	}
	return nil
}

// TakeTurn reports whether this node is the one that compares tasks with their work now: the first to ask. Nobody else is for ttl, or until the stream of work is lost.
func (n *workStore) TakeTurn(ctx context.Context, ttl time.Duration) (bool, error) {
	_, err := n.putMessage(ctx, n.subjectOf("work.turn.compare"), []byte(n.name), ttl, guard{}) // three tokens, so that it is no server's
	if errors.Is(err, store.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cluster: take a turn: %w", err)
	}
	return true, nil
}

// taskWork is work of a server as it was given to a worker. If the worker is silent, another one gets it after 5 s. If the removal of work that is done is lost,
// it is given out again.
type taskWork struct {
	tenant, task, from string
	deliveries         uint64 // this time included
	seq                uint64 // of the message
	msg                jetstream.Msg
}

func (w *taskWork) Of() (tenant, task, from string) { return w.tenant, w.task, w.from }
func (w *taskWork) Deliveries() uint64              { return w.deliveries }
func (w *taskWork) Seq() uint64                     { return w.seq }
func (w *taskWork) Keep() error                     { return w.msg.InProgress() }
func (w *taskWork) Done() error                     { return w.msg.Ack() }
func (w *taskWork) Later(d time.Duration) error     { return w.msg.NakWithDelay(d) }

// workQueue gives out the work of a server.
type workQueue struct {
	consumer jetstream.Consumer
	iter     jetstream.MessagesContext
}

// Work opens the queue of a server's work. The first call for a server makes its consumer. store.ErrNoQueue: the servers refuse that, and no work
// of the server is given out until they do not.
func (n *workStore) Work(ctx context.Context, server string) (store.Queue, error) {
	if !validName(server) {
		return nil, fmt.Errorf("cluster: work of %q: %w", server, store.ErrBadKey)
	}
	js, err := jetstream.New(n.conn)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := n.makeConsumer(ctx, js, server)
	if no, ok := errors.AsType[*jetstream.APIError](err); ok && no.Code == codeBadRequest {
		return nil, fmt.Errorf("cluster: work of %s: %w: %w: %w", server, store.ErrNoQueue, store.ErrUnavailable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: work of %s: %w: %w", server, store.ErrUnavailable, err)
	}
	// One at a time: what waits in this process for a worker would have to be kept, too.
	iter, err := c.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return nil, fmt.Errorf("cluster: work of %s: %w: %w", server, store.ErrUnavailable, err)
	}
	return &workQueue{consumer: c, iter: iter}, nil
}

// makeConsumer makes the consumer of a server's work, or takes the one that is there. Where the servers, or the account, allow fewer messages at a time than it should have, it has
// the half of that, or of the half.
func (n *workStore) makeConsumer(ctx context.Context, js jetstream.JetStream, server string) (jetstream.Consumer, error) {
	want := jetstream.ConsumerConfig{
		Durable: server, FilterSubject: n.subjectOf("work." + server), AckPolicy: jetstream.AckExplicitPolicy, AckWait: n.workWait(),
		MaxAckPending: maxWork, MaxDeliver: -1, InactiveThreshold: consumerIdle,
		MemoryStorage: !n.opts.isShared(), // it ends with its process, and the next one gives all work out again
	}
	for {
		c, err := js.CreateOrUpdateConsumer(ctx, n.streamName(work), want)
		no, ok := errors.AsType[*jetstream.APIError](err)
		switch {
		case ok && no.ErrorCode == codeMaxAckPending && want.MaxAckPending > 1:
			want.MaxAckPending /= 2
			continue
		case ok && no.ErrorCode == codeConsumer && want.MemoryStorage:
			// It was made while the process served other nodes, which it does no more.
			if err = js.DeleteConsumer(ctx, n.streamName(work), server); err == nil {
				c, err = js.CreateConsumer(ctx, n.streamName(work), want)
			}
		}
		return c, err
	}
}

// Retire removes the consumer of a server's work, unless there is work or another node waits for some. It is made again by whoever needs it.
func (n *workStore) Retire(ctx context.Context, server string) error {
	js, err := jetstream.New(n.conn)
	for tries := 0; err == nil && tries < 5; tries++ {
		var c jetstream.Consumer
		if c, err = js.Consumer(ctx, n.streamName(work), server); err != nil {
			break
		}
		if i := c.CachedInfo(); i.NumPending > 0 || i.NumAckPending > 0 {
			return nil
		} else if i.NumWaiting == 0 {
			err = js.DeleteConsumer(ctx, n.streamName(work), server)
			break
		}
		sleep(ctx, 100*time.Millisecond) // A queue of this node takes a moment to close.
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("cluster: retire the work of %s: %w: %w", server, store.ErrUnavailable, err)
	}
	return nil
}

// workWait is how long the servers of this store wait for a silent worker.
func (n *workStore) workWait() time.Duration {
	if n.replicas > 1 {
		return replicatedWait
	}
	return workWait
}

// Reclaim offers the work again that an earlier process of this node's name had, which would otherwise be given out only when that process
// has been silent for long enough. had says how long to offer a work for: 0 leaves it alone. Where no such process was
// alive a moment ago, Reclaim does nothing.
func (n *workStore) Reclaim(ctx context.Context, server string, had func(tenant, task string) time.Duration) error {
	if !n.succeeds || !validName(server) {
		return nil
	}
	type left struct {
		tenant, task, who string
		seq               uint64
	}
	var all []left // listed before any is offered, as what is offered comes behind them
	for from := uint64(1); len(all) < maxWork; {
		s, _, err := n.nextMessage(ctx, n.streamName(work), n.subjectOf("work."+server), from)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return fmt.Errorf("cluster: work of %s: %w", server, err)
		}
		from = s.seq + 1
		w := left{seq: s.seq}
		w.tenant, w.task, w.who = parseWork(s.data)
		all = append(all, w)
	}
	for _, w := range all {
		ttl := had(w.tenant, w.task)
		if ttl <= 0 {
			continue
		}
		if _, err := n.Offer(ctx, w.tenant, server, w.task, w.who, ttl); err != nil {
			return err
		}
		_ = n.Withdraw(ctx, w.seq) // a second offer of a task does no harm
	}
	return nil
}

// Next waits for work. One goroutine calls it. After an error other than that of ctx or ErrClosed it may be called again.
func (q *workQueue) Next(ctx context.Context) (store.Work, error) {
	for {
		msg, err := q.iter.Next(jetstream.NextContext(ctx))
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		case errors.Is(err, jetstream.ErrMsgIteratorClosed), errors.Is(err, nats.ErrConnectionClosed):
			return nil, store.ErrClosed
		default:
			return nil, fmt.Errorf("cluster: next work: %w: %w", store.ErrUnavailable, err)
		}
		if w := workOf(msg); w != nil {
			return w, nil
		}
	}
}

// workOf reads a message of work. It removes one that nobody can do, and returns nil.
func workOf(msg jetstream.Msg) *taskWork {
	tenant, task, from := parseWork(msg.Data())
	meta, err := msg.Metadata()
	if err != nil || !validTokens(tenant, 1) || !validTokens(task, 1) {
		_ = msg.Term()
		return nil
	}
	return &taskWork{tenant, task, from, meta.NumDelivered, meta.Sequence.Stream, msg}
}

// parseWork reads what Offer has written.
func parseWork(data []byte) (tenant, task, from string) {
	tenant, rest, _ := strings.Cut(string(data), ".")
	task, from, _ = strings.Cut(rest, ".")
	return tenant, task, from
}

// pokeWait is for how long Poke waits for work. A server that counts none, though there is some, looks for it only for those who wait.
const pokeWait = 20 * time.Millisecond

// Poke asks whether there is work, and hardly waits for any; nil says that there is none, or that Next has it. Any goroutine may call it.
// A server that has just removed work may overlook new work until it is asked again, which Next does every half a minute.
func (q *workQueue) Poke() (store.Work, error) {
	batch, err := q.consumer.Fetch(1, jetstream.FetchMaxWait(pokeWait))
	if err != nil {
		return nil, fmt.Errorf("cluster: ask for work: %w: %w", store.ErrUnavailable, err)
	}
	var w store.Work
	for msg := range batch.Messages() {
		if got := workOf(msg); got != nil {
			w = got
		}
	}
	return w, nil
}

// Close ends the queue. Next returns then.
func (q *workQueue) Close() { q.iter.Stop() }

// Working lists the servers that have work, on this node or another.
func (n *workStore) Working(ctx context.Context) ([]string, error) {
	subjects, err := n.listSubjects(ctx, work, "work.*")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("cluster: list work: %w", err)
	}
	var servers []string
	for subject := range subjects {
		servers = append(servers, subject[strings.LastIndexByte(subject, '.')+1:])
	}
	return servers, nil
}
