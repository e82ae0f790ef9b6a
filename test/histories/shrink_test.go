package histories

import (
	"encoding/json"
	"testing"
)

type testPlan struct {
	Faults  []int        `shrink:"any"`
	Clients []testClient `shrink:"one"`
}

type testClient struct {
	Posts  []int `shrink:"one"`
	Cancel Span  `shrink:"zero"`
	Name   string
}

// TestWithout leaves each part of a plan out, one at a time, and what must be there never.
func TestWithout(t *testing.T) {
	p := testPlan{Faults: []int{1, 2}, Clients: []testClient{{Posts: []int{3, 4}, Name: "a"}, {Posts: []int{5}, Cancel: 6, Name: "b"}}}
	a, b := `{"Posts":[3,4],"Cancel":"0s","Name":"a"}`, `{"Posts":[5],"Cancel":"6ns","Name":"b"}`
	want := []string{
		`{"Faults":[2],"Clients":[` + a + "," + b + "]}",
		`{"Faults":[1],"Clients":[` + a + "," + b + "]}",
		`{"Faults":[1,2],"Clients":[` + b + "]}",
		`{"Faults":[1,2],"Clients":[` + a + "]}",
		`{"Faults":[1,2],"Clients":[{"Posts":[4],"Cancel":"0s","Name":"a"},` + b + "]}",
		`{"Faults":[1,2],"Clients":[{"Posts":[3],"Cancel":"0s","Name":"a"},` + b + "]}",
		`{"Faults":[1,2],"Clients":[` + a + `,{"Posts":[5],"Cancel":"0s","Name":"b"}]}`,
	}
	for i, w := range want {
		q, ok := without(p, i)
		if got, _ := json.Marshal(q); !ok || string(got) != w {
			t.Errorf("without part %d: %s, want %s", i, got, w)
		}
	}
	if _, ok := without(p, len(want)); ok {
		t.Error("there is one part more")
	}
}

// TestWrongHistoryBecomesSmall has a history wrong for as long as it has fault 2, or for another reason without a client.
func TestWrongHistoryBecomesSmall(t *testing.T) {
	happen := func(_ *testing.T, p testPlan) (h History) {
		for _, f := range p.Faults {
			if f == 2 {
				h.Faults = append(h.Faults, "call 7.1.2 is lost")
			}
		}
		if len(p.Clients) < 2 {
			h.Faults = []string{"nobody is there"}
		}
		return h
	}
	p := testPlan{Faults: []int{1, 2, 3}, Clients: []testClient{{Posts: []int{3, 4}}, {Posts: []int{5}}}}
	q, got := shrink(t, p, History{Faults: []string{"call 1.1.1 is lost"}}, 1, happen)
	if len(q.Faults) != 1 || q.Faults[0] != 2 || len(q.Clients) != 2 || len(q.Clients[0].Posts) != 1 || len(got.Faults) != 1 {
		t.Errorf("it is %+v, with %v", q, got.Faults)
	}
}
