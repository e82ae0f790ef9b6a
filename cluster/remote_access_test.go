package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestNoSecretInARefusal: what is refused as an address may be a password with characters that end the address before its @.
func TestNoSecretInARefusal(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"nats://u:secret/x@h:4222", "nats://u:secret#x@h:4222", "nats://u:secret?x@h:4222", "nats://secret/x@h:4222", "nats://x/secret@h", "nats://h?token=secret", "nats://u:%secret@h",
		"http://u:secret@h", "nats://a,nats://x/secret@h", "nats://u:x,secret@h:4222", "secret@h", "u:secret@h:4222", "nats://u:secret",
	} {
		_, err := Open(t.Context(), Options{Remote: Remote{URL: url}})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s is refused with %v", url, err)
		}
	}
}

// TestRights has a node do all it does as a user with the rights of docs/nats.md and no others, and refuses a user that lacks one.
func TestRights(t *testing.T) {
	t.Parallel()
	publish, subscribe := []string{"troupe.>", "$JS.API.>", "$JS.ACK.>"}, []string{"_INBOX.>", "troupe.at.>", "troupe.all", "troupe.re.>"}
	user := func(name, without string) *server.User {
		p := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{}}
		p.Publish.Allow, p.Subscribe.Allow = slices.Clone(publish), slices.Clone(subscribe)
		for _, s := range []*server.SubjectPermission{p.Publish, p.Subscribe} {
			if at := slices.Index(s.Allow, without); at >= 0 {
				s.Allow = slices.Delete(s.Allow, at, at+1)
			}
			s.Deny = []string{"troupe.re.none"} // Without any, all would be allowed.
		}
		return &server.User{Username: name, Password: "secret", Permissions: p}
	}
	missing := []string{"troupe.>", "$JS.API.>", "$JS.ACK.>", "_INBOX.>", "troupe.at.>", "troupe.all", "troupe.re.>"}
	c := kit.StartNATS(t, 1, func(o *server.Options) {
		o.Users = []*server.User{user("whole", "")}
		for i, subject := range missing {
			o.Users = append(o.Users, user(fmt.Sprintf("u%d", i), subject))
		}
	})
	as := func(user string) Remote {
		return Remote{URL: strings.Replace(c.URL(), "://", "://"+user+":secret@", 1)}
	}
	a, b := open(t, Options{Node: "a", Remote: as("whole")}), open(t, Options{Node: "b", Remote: as("whole")})
	ctx := t.Context()
	rev := must[uint64](t)(a.OpenStream(ctx, testStream, []byte("w"), []byte("body"), time.Hour))
	change(t, appendWait(a, testStream, rev, 1, []byte("x")))
	must[[]event](t)(readEvents(ctx, b, testStream, 1, 1))
	must[uint64](t)(b.Tail(ctx, testStream, 0))
	must[uint64](t)(a.Offer(ctx, "anon", "demo", "t", "client", time.Hour))
	q := must[store.Queue](t)(b.Work(ctx, "demo")).(*workQueue)
	defer q.Close()
	change(t, q.next(t).Done())
	must[[]byte](t)(b.Keys().Seal([]byte("x"), nil))
	told := make(chan string, 1)
	a.Mail().Listen(func(l *store.Letter) { l.Reply([]byte("re")) }, func(store.Address) {})
	b.Mail().Listen(func(l *store.Letter) { told <- l.Kind }, func(store.Address) {})
	if reply, err := b.Mail().Ask(ctx, store.Address{Node: "a", Boot: a.Boot()}, "x", nil); string(reply) != "re" || err != nil {
		t.Errorf("asked: %q, %v", reply, err)
	}
	a.Mail().Tell("lists", nil)
	if got := <-told; got != "lists" {
		t.Errorf("told %s", got)
	}
	if gone, err := a.Gone(ctx, store.Address{Node: "b", Boot: "x"}); !gone || err != nil {
		t.Errorf("gone: %v, %v", gone, err)
	}
	for _, n := range []*Node{a, b} {
		for _, nc := range []*nats.Conn{n.conn, n.logConn, n.mail.conn} {
			if err := nc.LastError(); err != nil {
				t.Errorf("a node with all rights: %v", err)
			}
		}
	}

	for i, subject := range missing {
		t.Run("without "+subject, func(t *testing.T) {
			t.Parallel()
			most := time.Minute // all but two are refused at once
			if subject == "$JS.API.>" || subject == "_INBOX.>" {
				most = 10 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			n, err := Open(ctx, Options{Node: "c", Remote: as(fmt.Sprintf("u%d", i))})
			if !errors.Is(err, ErrRemote) {
				t.Errorf("it starts: %t, %v", n != nil, err)
			}
		})
	}
}

// doorman lets clients in, or not.
type doorman struct {
	shut    atomic.Bool
	refused chan struct{}
}

func (d *doorman) Check(server.ClientAuthentication) bool {
	if d.shut.Load() {
		select {
		case d.refused <- struct{}{}:
		default:
		}
		return false
	}
	return true
}

// TestRefusedForAWhile: servers that let the node in no more, as while their accounts are being changed, are asked until they do.
func TestRefusedForAWhile(t *testing.T) {
	when.Full(t, "real servers end and come back")
	t.Parallel()
	d := &doorman{refused: make(chan struct{}, 64)}
	c := kit.StartNATS(t, 1, func(o *server.Options) { o.CustomClientAuthentication = d })
	n := remote(t, c, "a")
	c.Stop(0)
	d.shut.Store(true)
	c.Start(t, 0)
	for range 8 { // of two connections
		select {
		case <-d.refused:
		case <-time.After(5 * time.Second):
			t.Fatal("it has given up")
		}
	}
	d.shut.Store(false)
	for {
		_, err := n.Create(t.Context(), "session.anon.demo.a", []byte("x"), time.Hour)
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrUnavailable) || !sleep(t.Context(), 10*time.Millisecond) {
			t.Fatal(err)
		}
	}
}
