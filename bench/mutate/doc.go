// Command mutate says whether the tests notice when a rule is broken. It has a table of mutations:
// small changes to guards, merges, limits, seals, expiry, negotiation and validation, each
// of which would pass a compiler and harm a user. It makes them one at a time and runs the
// tests of the package that the change is in.
//
//	go run ./bench/mutate [-run REGEXP] [-list] [-timeout 2m] [-out FILE]
//
// No file of the tree is touched: the changed file lies in a temporary folder, and
// "go test -overlay" takes it in the place of the one that it is a copy of. The tests run
// with -short, and without it if they all pass. All runs together take about a quarter of
// an hour on two cores; -run names the mutations to be made, -list prints them.
//
// A mutation is
//
//	caught     a test failed
//	survived   all tests passed: a test is missing
//	void       its text is not in the file once, it does not compile, or the tests fail without it
//
// Mutate exits with status 1 unless all are caught. A survivor gets a test, not another
// table: the test is written, seen to fail with the mutation, and stays. A mutation whose
// text has changed is moved on to what the code has become; TestTable finds those with
// the other tests, and makes none.
//
// The table is in table_*.go, by layer. A row says which package has to catch it; without
// one it is that of the file. The tests of the root package are below internal/spec, where
// the row names the folder.
//
// # Files
//
// From the top; most of what a file uses lies in its own line or below:
//
//	main run  the command, and one mutation
//	table_protocol table_machines table_storage table_remote table_told table_relay table_acting table_tasks table_carrying table_memory table_public table_extensions table_client table_scope table_keys table_revoke table_ends table_tokens table_door  the table, by layer
//	mutation  a row of it
package main
