// Command troupe runs a server of the Model Context Protocol whose sessions and
// event streams survive a crash.
//
//	troupe serve      serve the demo until SIGINT or SIGTERM
//	troupe stdio      serve the demo on standard input and output
//	troupe version    print the version and the protocol revisions it speaks
//
// Each setting of serve is a flag, and a key of the same name in the YAML file
// that --config names; flags win. The first SIGINT or SIGTERM drains: /readyz
// becomes 503, the program waits for calls that only it can end, and then ends
// with exit code 0. A second signal ends it at once with exit code 1.
//
// Exit codes: 0 after a drain, 1 when the server could not start or failed, 2
// when the command line or the configuration file is wrong.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	main stdio serve  the commands
//	logger metrics banner  what a user sees
//	settings limits networks size config help failure version  what a user says
package main
