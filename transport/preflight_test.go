package transport

import "testing"

func TestPreflightOfParameters(t *testing.T) {
	t.Parallel()
	s := serve(t, funcs{}, Options{})
	asked := "content-type, mcp-method, mcp-param-region ,Mcp-Param-A_b,mcp-param-,x-other, mcp-param-a b, mcp-param-\xe9"
	resp, _ := do(t, s.addr, request("OPTIONS", s.addr, "", "Origin: http://localhost:1", "Access-Control-Request-Headers: "+asked, "Access-Control-Request-Headers: mcp-param-z"))
	if got, want := resp.Header.Get("Access-Control-Allow-Headers"), allowedHeaders+", mcp-param-region, Mcp-Param-A_b, mcp-param-z"; got != want || resp.StatusCode != 204 {
		t.Errorf("got %d %q, want %q", resp.StatusCode, got, want)
	}
	if got := resp.Header.Values("Access-Control-Allow-Headers"); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}
