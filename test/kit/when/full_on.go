//go:build full

package when

// FullSize says that the tests are built with the tag "full", as .ci/night builds them: long tests run in their full size.
const FullSize = true
