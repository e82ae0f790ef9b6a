package revocation

import (
	"testing"
	"time"

	"github.com/troupe-run/troupe/auth"
)

// FuzzRecord reads records of any bytes. What can be read is written as it was, and refuses a token of whom it names.
func FuzzRecord(f *testing.F) {
	made := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for _, r := range []Revocation{{Subject: "alice", Issuer: "https://id.example.com"}, {Client: "app", Ban: true}, {Subject: "ä\u2028", Issuer: auth.KeyIssuer}} {
		r.ID, r.Created = r.deriveID(), made
		if !r.Ban {
			r.Expires = made.Add(DefaultLife)
		}
		data, err := recordOf(r, nil).encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data[:len(data)-1:len(data)-1], `,"later":{"a":[1]}}`...))
	}
	old := Revocation{Subject: "alice", Expires: made.AddDate(-2026, 0, 0)}
	old.ID, old.Created = old.deriveID(), old.Expires.Add(-time.Hour) // before the zero time
	data, err := recordOf(old, nil).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{"v":1,"id":"a","subject":"b","created":"2026-07-28T12:00:00Z","ban":true}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		same, err := decodeRecord(again)
		if err != nil {
			t.Fatalf("%s was written as %s: %v", data, again, err)
		}
		a, b := r.Revocation, same.Revocation
		if a.ID != b.ID || a.Subject != b.Subject || a.Client != b.Client || a.Issuer != b.Issuer || a.Ban != b.Ban || !a.Created.Equal(b.Created) || !a.Expires.Equal(b.Expires) || r.rest != same.rest {
			t.Fatalf("%+v was read again as %+v", a, b)
		}
		id := &auth.Identity{Issuer: a.Issuer, Subject: a.Subject, Client: a.Client}
		table := newTable(map[string]*entry{a.ID: {Revocation: a}})
		if now := a.Created; table.find(id, now) == nil && now.Before(a.Expires) {
			t.Fatalf("%+v refuses nothing of whom it names", a)
		}
		if !(Match{a}).IsAbout(a.Issuer, a.Subject, a.Client) {
			t.Fatalf("%+v is about nobody", a)
		}
		longer := a
		longer.Created, longer.Expires, longer.Ban = a.Created.Add(time.Hour), a.Created.Add(2*time.Hour), false
		if next := recordOf(longer, r); a.Ban && !next.Ban || !next.Ban && (next.Expires.Before(a.Expires) || next.Expires.Before(longer.Expires)) || next.Created.Before(a.Created) {
			t.Fatalf("%+v was weakened to %+v", a, next)
		}
	})
}
