package transport

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

var proxies = Forwarded{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("::ffff:172.16.0.0/108")}}

func TestForwarded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		peer, want    string
		forwarded, xf []string
	}{
		"nothing is said":              {peer: "10.0.0.1:7", want: "10.0.0.1:7"},
		"the peer is no proxy":         {peer: "192.0.2.9:7", xf: []string{"192.0.2.1"}, forwarded: []string{"for=192.0.2.1"}, want: "192.0.2.9:7"},
		"one proxy":                    {peer: "10.0.0.1:7", xf: []string{"192.0.2.1"}, want: "192.0.2.1:0"},
		"one proxy, standard":          {peer: "10.0.0.1:7", forwarded: []string{"for=192.0.2.1;proto=https;by=10.0.0.1"}, want: "192.0.2.1:0"},
		"what the client says itself":  {peer: "10.0.0.1:7", xf: []string{"198.51.100.1, 192.0.2.1"}, want: "192.0.2.1:0"},
		"on a line of its own":         {peer: "10.0.0.1:7", xf: []string{"198.51.100.1", "192.0.2.1"}, want: "192.0.2.1:0"},
		"that it is a proxy":           {peer: "10.0.0.1:7", xf: []string{"198.51.100.1, 10.9.9.9, 192.0.2.1"}, want: "192.0.2.1:0"},
		"two proxies":                  {peer: "10.0.0.1:7", xf: []string{"198.51.100.1, 192.0.2.1, 10.0.0.2"}, want: "192.0.2.1:0"},
		"proxies only":                 {peer: "10.0.0.1:7", xf: []string{"10.0.0.3, 10.0.0.2"}, want: "10.0.0.3:0"},
		"with a port":                  {peer: "10.0.0.1:7", xf: []string{"192.0.2.1:4711"}, want: "192.0.2.1:4711"},
		"IPv6":                         {peer: "[fd00::1]:7", xf: []string{"2001:db8::1"}, want: "[2001:db8::1]:0"},
		"IPv6 in brackets":             {peer: "10.0.0.1:7", xf: []string{"[2001:db8::1]"}, want: "[2001:db8::1]:0"},
		"IPv6 with a port, quoted":     {peer: "10.0.0.1:7", forwarded: []string{`For="[2001:db8::1]:4711"`}, want: "[2001:db8::1]:4711"},
		"a port that is hidden":        {peer: "10.0.0.1:7", forwarded: []string{`for="192.0.2.1:_x"`}, want: "192.0.2.1:0"},
		"IPv4 in IPv6":                 {peer: "[::ffff:10.0.0.1]:7", xf: []string{"::ffff:192.0.2.1"}, want: "192.0.2.1:0"},
		"a proxy's IPv4 in IPv6":       {peer: "10.0.0.1:7", xf: []string{"192.0.2.1, ::ffff:10.0.0.2"}, want: "192.0.2.1:0"},
		"a zone is none of ours":       {peer: "10.0.0.1:7", xf: []string{"fe80::1%eth0"}, want: "[fe80::1]:0"},
		"a hop that hides":             {peer: "10.0.0.1:7", forwarded: []string{"for=192.0.2.1, for=_secret, for=10.0.0.2"}, want: "10.0.0.2:0"},
		"a hop that nobody knows":      {peer: "10.0.0.1:7", xf: []string{"192.0.2.1, unknown"}, want: "10.0.0.1:7"},
		"an empty hop":                 {peer: "10.0.0.1:7", xf: []string{"192.0.2.1, "}, want: "10.0.0.1:7"},
		"an empty header":              {peer: "10.0.0.1:7", xf: []string{""}, want: "10.0.0.1:7"},
		"no for":                       {peer: "10.0.0.1:7", forwarded: []string{"for=192.0.2.1, proto=https"}, want: "10.0.0.1:7"},
		"two for":                      {peer: "10.0.0.1:7", forwarded: []string{"for=192.0.2.1;for=192.0.2.2"}, want: "10.0.0.1:7"},
		"empty pairs":                  {peer: "10.0.0.1:7", forwarded: []string{";for=192.0.2.1;;"}, want: "192.0.2.1:0"},
		"a name":                       {peer: "10.0.0.1:7", xf: []string{"client.example.com"}, want: "10.0.0.1:7"},
		"an open quotation":            {peer: "10.0.0.1:7", forwarded: []string{`for="192.0.2.1`, `for=192.0.2.2`}, want: "10.0.0.1:7"},
		"a quotation that hides a hop": {peer: "10.0.0.1:7", forwarded: []string{`for="198.51.100.1, for=x"`, `for=192.0.2.2`}, want: "192.0.2.2:0"},
		"an escape":                    {peer: "10.0.0.1:7", forwarded: []string{`for="192.0.2\.1"`}, want: "192.0.2.1:0"},
		"a space before the sign":      {peer: "10.0.0.1:7", forwarded: []string{`for =192.0.2.1`}, want: "10.0.0.1:7"},
		"a control character":          {peer: "10.0.0.1:7", forwarded: []string{"for=\"192.0.2.1\x01\""}, want: "10.0.0.1:7"},
		"brackets that do not close":   {peer: "10.0.0.1:7", xf: []string{"[2001:db8::1"}, want: "10.0.0.1:7"},
		"IPv4 in brackets":             {peer: "10.0.0.1:7", xf: []string{"[192.0.2.1]"}, want: "10.0.0.1:7"},
		"a port beyond":                {peer: "10.0.0.1:7", xf: []string{"192.0.2.1:65536"}, want: "10.0.0.1:7"},
		"a leading zero":               {peer: "10.0.0.1:7", xf: []string{"192.0.2.01"}, want: "10.0.0.1:7"},
		"both, and they agree":         {peer: "10.0.0.1:7", forwarded: []string{"for=192.0.2.1"}, xf: []string{"192.0.2.1"}, want: "192.0.2.1:0"},
		"both, and they do not":        {peer: "10.0.0.1:7", forwarded: []string{"for=198.51.100.1"}, xf: []string{"192.0.2.1"}, want: "10.0.0.1:7"},
		"both, and one is broken":      {peer: "10.0.0.1:7", forwarded: []string{"="}, xf: []string{"192.0.2.1"}, want: "10.0.0.1:7"},
		"a network of such addresses":  {peer: "[::ffff:172.16.0.1]:7", xf: []string{"192.0.2.1"}, want: "192.0.2.1:0"},
		"too many hops":                {peer: "10.0.0.1:7", xf: []string{"192.0.2.1" + strings.Repeat(", 10.0.0.2", 1000)}, want: "10.0.0.2:0"},
	} {
		header := http.Header{}
		if tt.forwarded != nil {
			header["Forwarded"] = tt.forwarded
		}
		if tt.xf != nil {
			header["X-Forwarded-For"] = tt.xf
		}
		r := &http.Request{RemoteAddr: tt.peer, Header: header}
		if got := proxies.Seen(r).RemoteAddr; got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if r.RemoteAddr != tt.peer {
			t.Errorf("%s: the request was changed", name)
		}
		if got := (Forwarded{}).Seen(r); got != r {
			t.Errorf("%s: without trusted proxies the request is another", name)
		}
	}
	if r := (&http.Request{RemoteAddr: "@", Header: http.Header{"X-Forwarded-For": {"192.0.2.1"}}}); proxies.Seen(r) != r {
		t.Error("a peer without an address has its word taken")
	}
}

// FuzzForwarded checks that a client cannot pass for another: whatever it sends before the part that the proxy adds,
// it counts as itself or as the proxy.
func FuzzForwarded(f *testing.F) {
	f.Add("192.0.2.1", "for=192.0.2.1")
	f.Add(`for="`, `for="[2001:db8::1]:_x";by=unknown,, ;for=_a`)
	f.Add("10.0.0.1, [fd00::1]:80", `for="\"";for=10.0.0.1`)
	f.Fuzz(func(t *testing.T, xf, standard string) {
		peer := netip.MustParseAddrPort("10.0.0.1:7")
		client := netip.MustParseAddr("192.0.2.77")
		for _, header := range []http.Header{
			{"X-Forwarded-For": {xf, client.String()}},
			{"X-Forwarded-For": {xf + ", " + client.String()}},
			{"Forwarded": {standard, "for=" + client.String()}},
			{"Forwarded": {standard}, "X-Forwarded-For": {xf + "," + client.String()}},
		} {
			if got := proxies.Client(peer, header).Addr(); got != client && got != peer.Addr() {
				t.Errorf("%q: counted as %s", header, got)
			}
			if got := proxies.Client(netip.AddrPortFrom(client, 7), header).Addr(); got != client {
				t.Errorf("%q, not by a proxy: counted as %s", header, got)
			}
		}
	})
}
