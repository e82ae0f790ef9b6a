// Package layout holds the rules of the repository as tests. It has no code besides
// them, and nothing imports it.
//
// TestLayout reads all files of the work tree, from the root directory two levels above
// this one, and runs every rule over them. A rule is a function that returns one line
// for each place that breaks it:
//
//   - layout_test.go: files parse and stay small, a package has one doc comment and is
//     named for a subject, the root has few test files, no file names a path of one
//     machine.
//   - imports_test.go: which directory may import which (the table layers), and which
//     directory may import which third-party module (the table owners). A new directory
//     needs a line in layers, a new dependency one in owners.
//   - modules_test.go: docs/dependencies.md gives a reason for each dependency, and
//     go.mod replaces none.
//   - api_test.go: the root package exports types of the standard library, of this
//     module and of the OpenTelemetry API only.
//   - locks_test.go: docs/locks.md has a row for each mutex outside of tests, and no
//     other.
//   - revisions_test.go: only mcp/revision.go knows what each revision of the protocol
//     has.
//   - diagrams_test.go: the diagrams of docs/architecture.md name functions, types and
//     members that exist.
//   - picture_test.go: the picture of the rooms in docs/architecture.md has the imports between
//     them, and no others.
//   - sleep_test.go: no test waits for time that really passes.
//   - knots_test.go: few files of a package need each other in a circle, and no type
//     has many methods.
//   - links_test.go: links of documents lead to files and headings that exist, and
//     docs/README.md links each document of docs.
//   - docs_test.go: the README is short and has programs and flags that exist, docs name files
//     and tests that exist and have 100 columns, and docs/conformance.md has a row for each
//     requirement.
//
// TestLayoutRulesFind runs each rule over small repositories that break it once, so that
// a rule cannot silently stop finding anything.
package layout
