// Command troupe runs a server of the Model Context Protocol whose sessions and
// event streams survive a crash.
//
//	troupe serve      serve a server of others, several, or the demo, until SIGINT or SIGTERM
//	troupe stdio      serve the same on standard input and output
//	troupe config     check the settings of serve, and show where each comes from
//	troupe health     ask a server of this machine whether it is healthy, or ready
//	troupe call       call a tool of a server, this program's or any other
//	troupe tools      list the tools of one
//	troupe nodes      list the processes that share its store
//	troupe sessions   look at the sessions in the store, and end them
//	troupe keys       make API keys for clients, rotate and revoke them
//	troupe revoke     end the access of a user, a client or an API key
//	troupe tasks      look at the tasks of a server that runs
//	troupe backends   look at the servers that it hosts, and restart them
//	troupe bench      measure a server of MCP, this program's or any other
//	troupe drain      end a server that runs in order
//	troupe version    print the version, the JSON library and the protocol revisions
//	troupe keeper     be the parent of the commands that serve hosts, which starts it, or a service manager
//
// Each setting of serve and stdio is a key of the YAML file that --config or TROUPE_CONFIG names. It is
// an environment variable, too, which wins over the file: TROUPE_MAX_BODY is max-body. --set sets it on
// the command line, which wins over both; those that people set there are flags, too, and
// --help-limits lists the others. The first SIGINT or SIGTERM drains: /readyz
// becomes 503, the program waits for calls that only it can end, and then ends
// with exit code 0. A second signal ends it at once with exit code 1. SIGHUP reads the file again, and those of
// servers: whose tokens count, and which backends there are, applies at once.
//
// Exit codes: 0 after a drain, 1 when the server could not start or failed, or what it was asked could not be done, 2
// when the command line or the configuration file is wrong, 3 when a tool that was called says that it failed.
package main
