package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// authReport is what tokens that do not count did to a process, and to a client of another address whose token does.
type authReport struct {
	Scenario string         `json:"scenario"`
	Seed     uint64         `json:"seed"`
	Rate     int            `json:"bad_tokens_per_second"` // what was to come
	Came     float64        `json:"answered_per_second"`   // what did
	Answers  map[string]int `json:"answers"`               // to them, by status
	Load     string         `json:"load_average_before"`   // of the machine
	Alone    quietReport    `json:"quiet_alone"`
	Beside   quietReport    `json:"quiet_beside"`

	Broken []string `json:"broken_promises"` // by count
	Over   []string `json:"over_bounds"`     // in time, which need a machine that does nothing else
}

// verdict is the error of a report with a promise that was not kept.
func (r *authReport) verdict() error {
	if all := slices.Concat(r.Broken, r.Over); len(all) > 0 {
		return errors.New(strings.Join(all, "\n"))
	}
	return nil
}

// badTokens are those that come in a second from one address.
const badTokens = 5000

// soakIssuer is an issuer that nobody can reach: its key lies in a file.
const soakIssuer = "http://127.0.0.1/soak"

// soakKey signs the tokens of a run.
type soakKey struct {
	private  ed25519.PrivateKey
	resource string
}

// configure writes the settings of a server that takes the tokens of k.
func (k *soakKey) configure(dir string) (config string, err error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	k.private = private
	keys := filepath.Join(dir, "keys.json")
	config = filepath.Join(dir, "auth.yaml")
	set := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
	section := fmt.Sprintf("public-url: %s\nauth:\n  issuers:\n    - url: %s\n      keys: %s\n", strings.TrimSuffix(k.resource, "/mcp"), soakIssuer, keys)
	return config, errors.Join(os.WriteFile(keys, []byte(set), 0o600), os.WriteFile(config, []byte(section), 0o600))
}

// token returns a token that no other has been equal to.
func (k *soakKey) token() string {
	text := tokenText(soakIssuer, k.resource)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.private, []byte(text)))
}

func tokenText(issuer, resource string) string {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":%q,"sub":"alice","client_id":"soak","aud":%q,"exp":%d,"jti":%q}`, issuer, resource, time.Now().Add(time.Hour).Unix(), rand.Text())
	return encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"1"}`)) + "." + encode([]byte(claims))
}

// tokened sends a token with each request. Every freshEvery-th is one that the server has not seen, which it has to verify.
type tokened struct {
	to  http.RoundTripper
	key *soakKey

	mu   sync.Mutex // guards the rest
	last string
	sent int
}

const freshEvery = 20

func (t *tokened) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	if t.sent%freshEvery == 0 {
		t.last = t.key.token()
	}
	t.sent++
	token := t.last
	t.mu.Unlock()
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return t.to.RoundTrip(r)
}

// runAuth has one address send bad tokens in turns with nobody, beside a quiet client of another address.
func runAuth(ctx context.Context, o options) (*authReport, error) {
	addr, err := freeAddress(o.seed)
	if err != nil {
		return nil, err
	}
	key := &soakKey{resource: "http://" + addr + "/mcp"}
	dir, err := os.MkdirTemp("", "troupe-soak-auth-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config, err := key.configure(dir)
	if err != nil {
		return nil, err
	}
	w := &greedy{o: o, p: &process{bin: o.bin, addr: addr, args: append([]string{"serve", "--data", o.data, "--listen", addr, "--set", "conformance=true", "--config", config}, o.flags...)}}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	defer w.cancel(errOver)
	r := &authReport{Scenario: "auth", Seed: o.seed, Rate: badTokens, Answers: make(map[string]int)}
	load, _ := os.ReadFile("/proc/loadavg") // elsewhere it is not known
	r.Load = string(bytes.TrimSpace(load))
	if err := w.p.start(); err != nil {
		return nil, err
	}
	defer func() { _ = w.p.kill() }()
	if err := w.untilReady(w.p); err != nil {
		return nil, err
	}
	alone, beside := newQuiet(key.resource), newQuiet(key.resource)
	var seconds float64
	for range o.rounds {
		for _, q := range []*quiet{alone, beside} {
			q.as = func(rt http.RoundTripper) http.RoundTripper { return &tokened{to: rt, key: key} }
			var stop func() (map[string]int, error)
			if q == beside {
				if stop, err = w.guess(key.resource); err != nil {
					return r, err
				}
				seconds += o.duration.Seconds()
			}
			of := q.run(w.ctx, func() { w.wait(o.duration) })
			q.keep()
			for _, what := range of.Failures {
				r.Broken = append(r.Broken, "a request of the quiet client failed: "+what)
			}
			if stop == nil {
				continue
			}
			answers, err := stop()
			if err != nil {
				return r, err
			}
			for status, n := range answers {
				r.Answers[status] += n
				r.Came += float64(n)
			}
		}
	}
	r.Came /= seconds
	r.Alone, r.Beside = alone.sum(), beside.sum()
	r.judge()
	fmt.Fprintf(o.log, "%.0f bad tokens a second, answered %v; the quiet client, alone: %s; beside: %s\n", r.Came, r.Answers, &r.Alone, &r.Beside)
	return r, context.Cause(w.ctx)
}

// judge looks for what does not keep the promises: others wait for twice as long at most, and a token that does not count is refused, mostly without a look.
func (r *authReport) judge() {
	for status := range r.Answers {
		if status != "401" && status != "429" {
			r.Broken = append(r.Broken, fmt.Sprintf("bad tokens are answered with %s", status))
		}
	}
	if r.Answers["401"] == 0 || r.Answers["429"] == 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("the answers to bad tokens are %v", r.Answers))
	}
	if r.Came < 0.9*float64(r.Rate) {
		r.Over = append(r.Over, fmt.Sprintf("%.0f bad tokens came in a second", r.Came))
	}
	for what, k := range map[string][2]latency{"calls": {r.Alone.Calls, r.Beside.Calls}, "initializes": {r.Alone.Initializes, r.Beside.Initializes}, "streams": {r.Alone.Streams, r.Beside.Streams}} {
		if k[1].P99 > 2*k[0].P99 {
			r.Over = append(r.Over, fmt.Sprintf("the p99 of %s is %.1f ms, alone %.1f ms", what, k[1].P99, k[0].P99))
		}
	}
}

// guess starts those who send bad tokens. stop ends them, and returns the answers that they got.
func (w *greedy) guess(resource string) (stop func() (map[string]int, error), err error) {
	cmd, in, said, err := w.startPolite("guess", resource, strconv.Itoa(badTokens))
	if err != nil {
		return nil, err
	}
	if _, err := said.ReadString('\n'); err != nil { // it has begun
		return nil, errors.Join(err, cmd.Wait())
	}
	return func() (answers map[string]int, err error) {
		err = in.Close()
		failed := json.NewDecoder(said).Decode(&answers)
		return answers, errors.Join(err, failed, cmd.Wait())
	}, nil
}

// runGuess is the program of those who guess: it sends so many bad tokens a second from an address of its own, until its input ends.
func runGuess(args []string, in io.Reader, out, stderr io.Writer) int {
	if len(args) != 2 {
		fmt.Fprintln(stderr, "usage: soak guess RESOURCE RATE")
		return 2
	}
	rate, err := strconv.Atoi(args[1])
	if err != nil || rate < 1 {
		fmt.Fprintf(stderr, "soak guess: the rate is %q\n", args[1])
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	fmt.Fprintln(out, "begun")
	if err := json.NewEncoder(out).Encode(guessAt(ctx, args[0], rate)); err != nil {
		fmt.Fprintln(stderr, "soak guess:", err)
		return 1
	}
	return 0
}

// guesses are how many requests with bad tokens are under way at a time.
const guesses = 32

// guessAt sends bad tokens until ctx ends, and returns the answers by status.
func guessAt(ctx context.Context, resource string, rate int) map[string]int {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 8, 1)}}
	rt := &http.Transport{DialContext: from.DialContext, MaxIdleConnsPerHost: guesses}
	defer rt.CloseIdleConnections()
	var mu sync.Mutex
	answers := make(map[string]int)
	due := make(chan int, rate)
	var working sync.WaitGroup
	for range guesses {
		working.Go(func() {
			for n := range due {
				status := guessOnce(ctx, rt, resource, n)
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	const tick = 10 * time.Millisecond
	began, sent := time.Now(), 0
	for ctx.Err() == nil {
		for most := int(time.Since(began).Seconds() * float64(rate)); sent < most; sent++ {
			select {
			case due <- sent:
			default: // it is behind by a second: what is lost shows in the report
			}
		}
		time.Sleep(tick)
	}
	for len(due) > 0 {
		<-due
	}
	close(due)
	working.Wait()
	delete(answers, "")
	return answers
}

// guessOnce sends one of several kinds of bad tokens, and returns the status, "" if ctx has ended before.
func guessOnce(ctx context.Context, rt http.RoundTripper, resource string, n int) string {
	token := rand.Text()
	switch n % 4 {
	case 0: // signed by somebody else
		signature := make([]byte, ed25519.SignatureSize)
		_, _ = rand.Read(signature)
		token = tokenText(soakIssuer, resource) + "." + base64.RawURLEncoding.EncodeToString(signature)
	case 1: // of another issuer
		token = tokenText("https://id.example.com", resource) + "." + token
	case 2: // for another server
		token = tokenText(soakIssuer, resource+"/else") + "." + token
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, resource, strings.NewReader(ping))
	if err != nil {
		return err.Error()
	}
	r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	a, err := rt.RoundTrip(r)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			a.Body.Close()
		}
		return ""
	case err != nil:
		return "none"
	}
	_, _ = io.Copy(io.Discard, a.Body)
	a.Body.Close()
	return strconv.Itoa(a.StatusCode)
}
