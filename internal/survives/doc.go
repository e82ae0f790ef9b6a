// Package survives has the table "What survives what": what Troupe promises for each kind of work when something breaks, and by which
// tests each promise is held. README, docs/what-survives.md and the documentation of package troupe have it from here:
//
//	go test ./internal/survives -update   writes them
//	go test ./internal/survives -hold     runs the tests of every cell first: a cell of which one fails, is skipped or is not there is not promised
package survives
