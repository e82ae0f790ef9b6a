// Package toolschema checks the arguments and results of tools against their JSON
// schemas, within bounds on the work that this may take.
//
// # Schemas
//
// [Arguments] and [Result] check a schema when a tool is registered, and return it as a
// [Schema] whose Validate checks JSON against it. They understand any dialect from draft
// 4 to 2020-12, and refuse references to other documents. A tool of another server may
// bring a schema that is made to keep this process busy. So both refuse a schema that is
// nested more than 64 deep, that holds more than 10,000 schemas, that refers to itself
// without a step into the value, or that has a number of more than 1,000 characters or
// with an exponent beyond 999.
//
// A schema is compiled at its first use. Tools with the same text share the compiled
// form, and the garbage collector frees it when no tool uses it any more. [Form] is for
// users' answers to forms: there a string must have the format that the schema names, as it
// must in arguments where a form tag names one.
//
// # The budget
//
// The work of most schemas grows only with the size of the value. It may grow faster if a
// schema refers to itself or checks one value against many schemas. There Validate counts
// its steps and refuses the value after 8,192 steps and four for each byte of it, at most
// 2^20. Under any schema it refuses numbers of more than 1,000 characters, or with an
// exponent beyond 999 (2026-07-28, basic/index, "Composition-Keyword Resource Use").
//
// # Members that come twice
//
// Validate refuses a value in which a member comes twice in its object, at any depth and
// whatever the schema says. The validator sees only the last of them, while a decoder of Go
// types merges them or uses again what the first one left: what was checked would not be
// what the handler gets.
//
// # Schemas of Go types
//
// [InferArguments] and [InferResult] work out the schema of a Go type: that of the JSON
// that codec decodes into it, or encodes from it. The two differ where a type has methods
// for one of them only. They fail where the form cannot be known; otherwise a tool would
// be registered, and each of its calls would fail.
//
// The form tag of a field bounds its values, in arguments and in the forms that users fill in:
// [ReadTag] reads it for both. An argument with a default may be left out, and [Presets] fill it in.
//
// # Headers
//
// Properties may have x-mcp-header: since 2026-07-28 clients repeat such an argument in a
// header. Arguments returns these as [Headers], whose Check finds headers that differ
// from the arguments.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine.
package toolschema
