// Package codecs is tests and benchmarks of Troupe's codec beside other JSON libraries. The benchmarks give all of them the
// same work of a dispatcher, on the same messages; the tests prove that they come to the same result, and which faults in a
// message each of them refuses, and when.
//
//	go -C bench/peers test -v -run TestFaults ./codecs
//	go -C bench/peers test -run '^$' -bench . ./codecs
//
// bench/run --codec runs both. docs/bench.md says what is compared.
package codecs
