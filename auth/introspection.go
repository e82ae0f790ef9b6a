package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	maxOpaque  = 30 * time.Second // for which the answer about an opaque token is kept
	maxAsking  = 32               // questions of a kind to an endpoint at once: those about new tokens do not hold up others
	askedAgain = 5 * time.Second  // Retry-After when the endpoint does not answer
)

// introspector asks an issuer about opaque tokens.
type introspector struct {
	of             *issuer
	firsts, agains chan struct{} // each has an element for each question under way

	mu     sync.Mutex // guards what follows
	asking map[verdictKey]*question
	closed bool

	questions sync.WaitGroup
}

// question is one about a token that was put to the issuer, for all requests that have it.
type question struct {
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the following is there
	verdict *Verdict
	refusal *Refusal
}

func newIntrospector(of *issuer) *introspector {
	return &introspector{of: of, firsts: make(chan struct{}, maxAsking), agains: make(chan struct{}, maxAsking), asking: make(map[verdictKey]*question)}
}

// askVerdict returns the verdict about an opaque token, which may be a refusal. again says that it counted before. One question is put for all who wait.
func (in *introspector) askVerdict(ctx context.Context, k verdictKey, token string, again bool, found func(*Verdict)) (*Verdict, *Refusal) {
	in.mu.Lock()
	q := in.asking[k]
	if q == nil && in.closed {
		in.mu.Unlock()
		return nil, refuseUnavailable(ReasonUnavailable, askedAgain, errClosed)
	}
	if q == nil {
		asking, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // others may wait for it, too
		q = &question{cancel: cancel, done: make(chan struct{})}
		in.asking[k] = q
		in.questions.Go(func() {
			asking, release := context.WithTimeoutCause(asking, fetchTime, errSlow)
			defer release()
			defer cancel(nil)
			if q.verdict, q.refusal = in.putQuestion(asking, token, again, canonicalURL(k.resource)); q.refusal == nil {
				found(q.verdict)
			}
			in.mu.Lock()
			delete(in.asking, k)
			in.mu.Unlock()
			close(q.done)
		})
	}
	in.mu.Unlock()
	select {
	case <-q.done:
		return q.verdict, q.refusal
	case <-ctx.Done():
		return nil, refuseUnavailable(ReasonUnavailable, askedAgain, context.Cause(ctx))
	}
}

// putQuestion asks the endpoint (RFC 7662, 2.1).
func (in *introspector) putQuestion(ctx context.Context, token string, again bool, resource string) (*Verdict, *Refusal) {
	places := in.firsts
	if again {
		places = in.agains
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return nil, refuseUnavailable(ReasonUnavailable, askedAgain, context.Cause(ctx))
	}
	data, err := in.postToken(ctx, token)
	var c object
	if err == nil {
		c, err = readObject(data)
	}
	if err != nil {
		in.of.log.Warn("an issuer does not say whose a token is", slog.String("issuer", in.of.URL), slog.Any("err", err))
		return nil, refuseUnavailable(ReasonUnavailable, askedAgain, err)
	}
	return in.of.judgeAnswer(c, resource, time.Now())
}

// judgeAnswer is the verdict of an answer (RFC 7662, 2.2).
func (i *issuer) judgeAnswer(c object, resource string, now time.Time) (*Verdict, *Refusal) {
	v := &Verdict{ends: now.Add(maxOpaque)}
	kind, typed, err := c.text("token_type")
	switch active := string(c["active"]); {
	case active == "false":
		v.refused = invalidToken(ReasonInactive)
	case active != "true":
		return nil, refuseUnavailable(ReasonUnavailable, askedAgain, fmt.Errorf("introspection: active is %.20q", active))
	case err != nil || typed && !strings.EqualFold(kind, "bearer"):
		v.refused = invalidToken(ReasonBound, c.shown("token_type")...)
	default:
		var id *Identity
		if id, v.refused = i.judgeClaims(c, true, resource, now); id != nil {
			v.Identity = *id
			if id.Expires.Before(v.ends) {
				v.ends = id.Expires
			}
		}
	}
	return v, nil
}

func (in *introspector) postToken(ctx context.Context, token string) (data []byte, err error) {
	to := in.of.Introspection
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(url.QueryEscape(to.ClientID), url.QueryEscape(to.ClientSecret)) // RFC 6749, 2.3.1
	err = runGuarded(func() (err error) {
		data, _, err = exchangeBody(in.of.client, r)
		return err
	})
	if urlError, ok := errors.AsType[*url.Error](err); ok {
		err = urlError.Err // not what was sent
	}
	return data, err
}

// closeQuestions ends the questions under way, and waits for them.
func (in *introspector) closeQuestions() {
	in.mu.Lock()
	in.closed = true
	for _, q := range in.asking {
		q.cancel(errClosed)
	}
	in.mu.Unlock()
	in.questions.Wait()
}
