package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/troupe-run/troupe/internal/store"
)

// FuzzDecode checks that decoding any stored bytes gives the data or one of our errors.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{0})
	f.Add(encodeRecord([]byte("data")))
	f.Add([]byte{2, 1, 2, 3})
	f.Add(append(binary.BigEndian.AppendUint64([]byte{eventVersion}, 7), "data"...))
	f.Add(binary.BigEndian.AppendUint64([]byte{eventVersion}, 0))
	known := func(err error) bool {
		return err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNewer) || errors.Is(err, store.ErrDamaged)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		data, err := decodeRecord(payload)
		if !known(err) || err == nil && !bytes.Equal(encodeRecord(data), payload) {
			t.Errorf("record %x: got %x, %v", payload, data, err)
		}
		num, data, err := decodeEvent(payload)
		if !known(err) || err == nil && (num == 0 || !bytes.Equal(append(binary.BigEndian.AppendUint64([]byte{eventVersion}, num), data...), payload)) {
			t.Errorf("append %x: got %d, %x, %v", payload, num, data, err)
		}
	})
}

// FuzzParseAck checks that an acknowledgement gives a sequence or an error, never both
// and never neither.
func FuzzParseAck(f *testing.F) {
	for _, s := range []string{"", "{}", "+OK", `{"stream":"events","seq":12}`, `{"stream":"events","seq":12,"duplicate":true}`, `{"stream":"events","seq":0}`,
		`{"stream":"events","domain":"d","seq":7}`, `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"events","seq":0}`,
		`{"stream":"events","seq":5,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"}}`, `{"seq": 3, "stream":"x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		seq, err := parseAck(data, store.ErrFenced)
		if (seq == 0) != (err != nil) {
			t.Errorf("%q: got %d, %v", data, seq, err)
		}
	})
}

// FuzzValidTokens checks that a valid key never holds a character with a meaning in
// NATS.
func FuzzValidTokens(f *testing.F) {
	for _, s := range []string{"", "a", "a.b.c.d", "a..c.d", "*.b.c.d", "a.b.c.>", "a.b.c.d ", "a.b.c.d\r\nPUB x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if validTokens(s, 4) && (len(s) < 7 || bytes.ContainsAny([]byte(s), "*> \t\r\n\"\\\x00") || bytes.Count([]byte(s), []byte(".")) != 3) {
			t.Errorf("%q was accepted", s)
		}
	})
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]error{codeWrongLast: store.ErrFenced, codeWrongLastInFlight: store.ErrRetry, codeNoMessage: store.ErrNotFound, codeInsufficient: store.ErrFull,
		codeStorageExceeded: store.ErrFull, codeMemoryExceeded: store.ErrFull, codeAccountResources: store.ErrFull, codeMessageTooBig: store.ErrTooBig, codeStoreFailed: store.ErrUnavailable, 1: store.ErrUnavailable} {
		wantErr(t, "code", (&apiError{ErrCode: code}).cause(store.ErrFenced), want)
	}
	wantErr(t, "full", (&apiError{ErrCode: codeStoreFailed, Description: "maximum bytes exceeded"}).cause(store.ErrFenced), store.ErrFull)
	_, err := parseAck([]byte(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"},"stream":"events","seq":0}`), store.ErrFenced)
	wantErr(t, "refused append", err, store.ErrFenced)
	if seq, err := parseAck([]byte(`{"stream":"events","seq":12}`), store.ErrFenced); seq != 12 || err != nil {
		t.Errorf("acknowledgement: got %d, %v, want 12", seq, err)
	}
}
