// Package cost is a search, which is a test, for the messages that cost a server most per byte: it mutates messages of each
// kind, at most 64 KiB long, and keeps those that made the whole path, from http.Handler to the response, allocate most or
// take most processor time.
//
//	go test -tags full -v -timeout 0 -run TestSearch ./bench/cost -search 5m [-seed N] [-kinds REGEXP] [-keep]
//
// It starts from the messages in testdata and from small ones, so that runs build on each other. With -keep it writes the
// worst of each kind to testdata. What a message costs is counted beyond what a small one of its kind costs. The search
// is for a quiet machine: its times are those of the process, which collects garbage meanwhile.
//
// TestCost holds what was found below the bounds of docs/limits.md, by bytes of heap and allocations. The times are only
// printed.
package cost
