package auth

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestKeySet has a row for each rule on what an issuer says of a key.
func TestKeySet(t *testing.T) {
	pairs()
	for name, tt := range map[string]struct {
		key  string // of pairs
		more []string
		alg  string
		want bool
	}{
		"plain":                     {"a", nil, "ES256", true},
		"its own alg":               {"a", []string{"alg", "ES256"}, "ES256", true},
		"another alg":               {"rsa", []string{"alg", "RS512"}, "RS256", false},
		"an alg of encryption":      {"rsa", []string{"alg", "RSA-OAEP"}, "RS256", false},
		"an alg of another curve":   {"a", nil, "ES384", false},
		"an alg of another kind":    {"a", nil, "RS256", false},
		"RSA with PSS":              {"rsa", nil, "PS384", true},
		"RSA for an HMAC":           {"rsa", nil, "HS256", false},
		"Ed25519 by its new name":   {"ed", []string{"alg", "Ed25519"}, "EdDSA", true},
		"use enc":                   {"a", []string{"use", "enc"}, "ES256", false},
		"use sig":                   {"a", []string{"use", "sig"}, "ES256", true},
		"1,024 bits":                {"rsa1024", nil, "RS256", false},
		"a kid of 257 bytes":        {"a", []string{"kid", strings.Repeat("a", 257)}, "ES256", false},
		"a certificate of nonsense": {"a", []string{"x5c", "AA", "x5t", "??"}, "ES256", true},
		"another kty":               {"a", []string{"kty", "RSA"}, "ES256", false},
		"another crv":               {"a", []string{"crv", "P-384"}, "ES256", false},
		"a point beside the curve":  {"a", []string{"y", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, "ES256", false},
		"a private key":             {"a", []string{"d", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, "ES256", false},
		"a symmetric key":           {"a", []string{"kty", "oct", "k", "AAAA"}, "ES256", false},
		"an unknown kty":            {"a", []string{"kty", "XYZ"}, "ES256", false},
	} {
		set, err := readKeys([]byte(encoded(map[string]any{"keys": []any{pairs()[tt.key].jwk(tt.more...), pairs()["b"].jwk()}})))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		kid := tt.key
		if len(tt.more) > 0 && tt.more[0] == "kid" {
			kid = tt.more[1]
		}
		s := &keySet{keys: set}
		if got := len(s.findKeys(kid, tt.alg)) == 1; got != tt.want {
			t.Errorf("%s: found is %v, want %v", name, got, tt.want)
		}
		if len(s.findKeys("b", "ES256")) != 1 {
			t.Errorf("%s: the key beside it is lost", name)
		}
	}
	ops := func(ops ...string) bool {
		k := pairs()["a"].jwk()
		k["key_ops"] = ops
		return readKey(json.RawMessage(encoded(k))) != nil
	}
	if !ops("verify") || !ops("sign", "verify") || ops("encrypt") || ops() {
		t.Error("key_ops are not obeyed")
	}
	if readKey(json.RawMessage(`{"kty":"OKP","kty":"OKP"`)) != nil {
		t.Error("a broken key is read")
	}
}

// TestKeySetForm refuses what is no key set, and one that is too large.
func TestKeySetForm(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		keys := make([]any, n)
		for i := range keys {
			keys[i] = pairs()["a"].jwk("kid", fmt.Sprint(i))
		}
		return encoded(map[string]any{"keys": keys})
	}
	for text, want := range map[string]int{
		"": -1, "{}": -1, "[]": -1, `{"keys":null}`: -1, `{"keys":{}}`: -1, `{"keys":[],"keys":[]}`: -1, "<html>": -1,
		`{"keys":[]}`: 0, `{"keys":[null,1,"x",[],{}]}`: 0, keySetOf("a", "b"): 2, keySetOf("a", "a"): 1, many(256): 256, many(257): -1,
	} {
		keys, err := readKeys([]byte(text))
		if got := len(keys); err != nil && want != -1 || err == nil && got != want {
			t.Errorf("%.60s: %d keys, %v, want %d", text, got, err, want)
		}
	}
	s := &keySet{}
	for i := range 100 {
		s.keys = append(s.keys, &key{kid: fmt.Sprint(i), kind: kindP256})
	}
	if n := len(s.findKeys("", "ES256")); n != maxAnyKey {
		t.Errorf("%d keys are tried", n)
	}
}

// TestReplace keeps keys that stay, and marks those that go.
func TestReplace(t *testing.T) {
	t.Parallel()
	read := func(text string) *keySet {
		keys, err := readKeys([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return &keySet{keys: keys}
	}
	first := read(keySetOf("a", "b"))
	second := read(keySetOf("b", "c"))
	gone := second.replaceKeys(first)
	if len(gone) != 1 || gone[0] != first.keys[0] || !first.keys[0].gone.Load() || first.keys[1].gone.Load() || second.keys[0] != first.keys[1] {
		t.Errorf("gone are %v", gone)
	}
	// A key whose rules change is another key.
	third := read(encoded(map[string]any{"keys": []any{pairs()["b"].jwk("alg", "ES256")}}))
	if gone := third.replaceKeys(second); len(gone) != 2 {
		t.Errorf("%d are gone, want 2", len(gone))
	}
	// So is one under the name of another.
	fourth := read(encoded(map[string]any{"keys": []any{pairs()["c"].jwk("kid", "b", "alg", "ES256")}}))
	if gone := fourth.replaceKeys(third); len(gone) != 1 {
		t.Errorf("%d are gone, want 1", len(gone))
	}
	again := read(keySetOf("a"))
	if again.replaceKeys(fourth); again.keys[0].gone.Load() {
		t.Error("a key that came back is gone")
	}
}
