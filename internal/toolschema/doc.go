// Package toolschema holds what tools take and give against their JSON schemas, within
// bounds on the work that this may take.
//
// # Schemas
//
// [Arguments] and [Result] check a schema when a tool is registered, and return it as a
// [Schema] whose Validate holds JSON against it. Any dialect from draft 4 to 2020-12 is
// understood; references to other documents are refused. A tool of another server may
// bring a schema that is made to keep this process busy, so both refuse schemas that are
// nested more than 64 deep, that hold more than 10,000 schemas, that refer to
// themselves without a step into the value, or that have a number of more than 1,000
// characters or with an exponent beyond 999.
//
// A schema is compiled at its first use. Tools with the same text share the compiled
// form, and the garbage collector takes it when nobody uses it any more. [Form] is for the
// answers of users: under its schemas a string must have the format that they name.
//
// # The budget
//
// The work of most schemas grows with the size of the value alone. Where it may grow
// faster, because a schema refers to itself or holds one value against many schemas,
// Validate counts its steps, and refuses the value after 8,192 and four for each byte of
// it, at most 2^20. It refuses numbers of more than 1,000 characters, or with an exponent
// beyond 999, under any schema (2026-07-28, basic/index, "Composition-Keyword Resource
// Use").
//
// # Schemas of Go types
//
// [InferArguments] and [InferResult] work out the schema of a Go type, which is that of
// the JSON that codec reads into it, or writes. The two differ where a type has methods
// for one of them only. Where the form cannot be known they fail, so that no tool is
// registered whose every call would.
//
// # Headers
//
// Properties may have x-mcp-header: clients since 2026-07-28 repeat such an argument in a
// header. Arguments returns these as [Headers], whose Check finds headers that say
// something else than the arguments.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine.
//
// The files, each with its tests beside it, from the bottom up: decimal.go compares
// numbers, headers.go and subschemas.go walk a schema that is registered, work.go
// compiles it and counts, schema.go is the API. Apart from them infer.go works
// out schemas of Go types, over the members that fields.go finds in structs.
package toolschema
