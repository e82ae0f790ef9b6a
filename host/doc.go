// Package host says which MCP servers that somebody else has written a server offers, and how they run. Such a server is
// a backend: a command that speaks over its standard input and output, a URL, or a server of another library in this
// process. A program names one by a [Target], and says the rest in [Options], whose zero value is fit for a backend of
// which nothing is known:
//
//	host.Command("npx", "-y", "@modelcontextprotocol/server-memory")
//	host.URL("https://mcp.example.com/mcp")
//	host.Serve("notes", run)
//
// What runs for a backend is an instance: a process, a session at the URL, or a run of the function. Options say who
// shares one, how many there are, what it may do, and what becomes of its callers when it is gone.
//
// One rule holds for every number, size and time, as in the package troupe: 0 is the default, and a negative value means
// no limit, or never. What must be bounded takes no negative value.
//
// A program that hosts commands begins with [Main]. Values of this package are data. All functions may be called from any
// goroutine; nobody may change a value that another goroutine reads.
package host
