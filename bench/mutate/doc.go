// Package mutate is a test that says whether the tests notice when a promise is broken. It has a
// table of at most 120 mutations: small changes to guards, merges, limits, seals and expiry, each
// of which would pass a compiler and break what README promises. It makes them one at a time and
// runs the tests that have to catch them.
//
//	go test -v -timeout 3h -run TestMutations ./bench/mutate -mutate REGEXP
//
// No file of the tree is touched: the changed file lies in a temporary folder, and "go test
// -overlay" takes it in the place of the one that it is a copy of. The tests run with -short, and
// without it if they all pass. REGEXP chooses mutations by promise, group or folder; . makes all.
//
// 45 rows drawn by lot took 6.4 s of processor time each, and 20 s on two cores that other work
// kept busy. By that all 120 take a quarter of an hour on two quiet cores, and 40 minutes on busy
// ones; they were not timed together.
//
// A mutation is
//
//	caught     a test failed
//	survived   all tests passed: a test is missing
//	void       its place is not in the package once, it does not compile, or the tests fail without it
//
// TestMutations fails unless all are caught. A survivor gets a test, not another table: the test is
// written, seen to fail with the mutation, and stays.
//
// # The table
//
// It is grouped by promise, a file each:
//
//	sessions    a client keeps its session, in whatever revision, through deploys and crashes
//	once        no event, answer or task is lost or doubled, and a request has exactly one response
//	nodes       any node serves any client, and no node concludes more than it can know
//	isolation   nobody may do what is not theirs, and nobody reads what is another's
//	limits      nothing grows without bound, and bad input is refused and hurts nobody else
//
// A row begins with what users have of its place as it is. For a protection it has the mutation
// that hurts them most and that tests of other things would not catch. Where there are 120 rows, a
// new one takes the place of the one that tells least.
//
// A row names the place by the folder of a package and a pattern of its source text, in which $name
// stands for any identifier: see pattern_test.go. Every identifier of this module is such a name,
// and what is left is Go's and the libraries'. So files, functions, fields and variables may be
// renamed, and may move within their package. Where the code itself has changed, or a second place
// has come to look like it, TestTable says so with the other tests, and the pattern is moved on. It
// also looks for the tests that a row names. Neither notices a place that has changed while another
// one has come to look as it did.
package mutate
