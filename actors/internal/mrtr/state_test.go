package mrtr

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// sealed stands for a key: its seals open only with the same aad.
type sealed struct{ Plain, AAD []byte }

func sealPlain(plain, aad []byte) ([]byte, error) { return json.Marshal(sealed{plain, aad}) }

func openPlain(data, aad []byte) ([]byte, error) {
	var s sealed
	if json.Unmarshal(data, &s) != nil || !bytes.Equal(s.AAD, aad) {
		return nil, ErrBadState
	}
	return s.Plain, nil
}

// scanned returns the request of a tool call with these params.
func scanned(t *testing.T, method, params string) *codec.Message {
	t.Helper()
	m := new(codec.Message)
	if err := codec.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`), m, codec.Limits{}); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestStateIsForOneRequest checks that a state is good for the request, the principal
// and the server that it was made for, until it expires, and for nothing else.
func TestStateIsForOneRequest(t *testing.T) {
	t.Parallel()
	expires := time.UnixMilli(1_800_000_000_000)
	first := scanned(t, "tools/call", `{"name":"pay","arguments":{"to":"a","sum":10}}`)
	st := State{Method: "tools/call", Request: RequestDigest(first), Expires: expires.UnixMilli(), Park: "p", Round: 3,
		Given: map[string]json.RawMessage{"ok": json.RawMessage(`{"action":"accept"}`)}}
	text, err := st.Seal("tenant", "server", sealPlain)
	if err != nil {
		t.Fatal(err)
	}
	const same = `"name":"pay","arguments":{"to":"a","sum":10}`
	for name, row := range map[string]struct {
		method, params, tenant, server string
		at                             time.Duration // relative to its expiry
		good                           bool
	}{
		"as it was":                  {"tools/call", same, "tenant", "server", -time.Hour, true},
		"written otherwise":          {"tools/call", `"arguments":{"sum":10,"to":"\u0061"},"name":"p\u0061y"`, "tenant", "server", -time.Hour, true},
		"at the last moment":         {"tools/call", same, "tenant", "server", -time.Millisecond, true},
		"when it expires":            {"tools/call", same, "tenant", "server", 0, false},
		"later":                      {"tools/call", same, "tenant", "server", time.Hour, false},
		"of another principal":       {"tools/call", same, "other", "server", -time.Hour, false},
		"to another server":          {"tools/call", same, "tenant", "other", -time.Hour, false},
		"of another method":          {"prompts/get", same, "tenant", "server", -time.Hour, false},
		"of another tool":            {"tools/call", `"name":"play","arguments":{"to":"a","sum":10}`, "tenant", "server", -time.Hour, false},
		"with other arguments":       {"tools/call", `"name":"pay","arguments":{"to":"a","sum":11}`, "tenant", "server", -time.Hour, false},
		"without arguments":          {"tools/call", `"name":"pay"`, "tenant", "server", -time.Hour, false},
		"tenant and server run over": {"tools/call", same, "tenantserver", "", -time.Hour, false},
	} {
		m := scanned(t, row.method, `{`+row.params+`,"requestState":"`+text+`"}`)
		got, err := OpenState(m, row.tenant, row.server, expires.Add(row.at), openPlain)
		switch {
		case row.good && err != nil:
			t.Errorf("%s: %v", name, err)
		case !row.good && !errors.Is(err, ErrBadState):
			t.Errorf("%s: got %+v, %v, want %v", name, got, err, ErrBadState)
		case row.good && (got.Park != "p" || got.Round != 3 || string(got.Answers()["ok"]) != `{"action":"accept"}`):
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestStateHasOneSpelling checks that a state has one spelling, so that comparing and
// counting states takes no state for two.
func TestStateHasOneSpelling(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for size := range 3 { // two of these sizes leave bits of the last character unused
		st := State{Method: "tools/call", Expires: now.Add(time.Hour).UnixMilli(), Park: "park"[:1+size]}
		plain := scanned(t, "tools/call", `{"name":"x"}`)
		st.Request = RequestDigest(plain)
		text, err := st.Seal("t", "s", sealPlain)
		if err != nil {
			t.Fatal(err)
		}
		open := func(text string) error {
			_, err := OpenState(scanned(t, "tools/call", `{"name":"x","requestState":`+strconv.Quote(text)+`}`), "t", "s", now, openPlain)
			return err
		}
		if err := open(text); err != nil {
			t.Errorf("%d: %v", size, err)
		}
		others := []string{text + "=", text[:4] + "\n" + text[4:], text[:4] + "\r" + text[4:], text + "\n", " " + text, "", text[:len(text)-1]}
		raw, _ := base64.RawURLEncoding.DecodeString(text)
		for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
			other := text[:len(text)-1] + string(c)
			if got, _ := base64.RawURLEncoding.DecodeString(other); other != text && bytes.Equal(got, raw) {
				others = append(others, other)
			}
		}
		for _, other := range others {
			if err := open(other); !errors.Is(err, ErrBadState) {
				t.Errorf("%d: %q: got %v, want %v", size, other, err, ErrBadState)
			}
		}
	}
}

// TestStateWhoseKeyIsAway checks that a state is not refused as bad when the keys
// cannot be read: the client may try again.
func TestStateWhoseKeyIsAway(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	m := scanned(t, "tools/call", `{"name":"x","requestState":"AAAA"}`)
	if _, err := OpenState(m, "t", "s", time.Now(), func([]byte, []byte) ([]byte, error) { return nil, away }); !errors.Is(err, away) {
		t.Errorf("open: got %v, want %v", err, away)
	}
	if _, err := new(State).Seal("t", "s", func([]byte, []byte) ([]byte, error) { return nil, away }); !errors.Is(err, away) {
		t.Errorf("seal: got %v, want %v", err, away)
	}
}

// TestRequestDigestKeepsPartsApart checks that the digest of a request keeps its parts
// apart: text that moves from one part to another changes the digest.
func TestRequestDigestKeepsPartsApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, params := range []string{
		`{}`, `{"name":"a"}`, `{"uri":"a"}`, `{"name":"a","uri":"a"}`, `{"arguments":"a"}`, `{"name":"a","arguments":{}}`,
		`{"name":"a","uri":"b"}`, `{"uri":"b","arguments":"a"}`, `{"name":1,"uri":2}`, `{"name":12}`, `{"uri":12}`, `{"name":1,"arguments":2}`,
	} {
		sum := RequestDigest(scanned(t, "tools/call", params))
		if other, ok := seen[sum]; ok {
			t.Errorf("%s and %s are one", other, params)
		}
		seen[sum] = params
	}
	if n := len(seen); n != 12 {
		t.Errorf("%d digests, want 12", n)
	}
}
