package protocol

// KnownTo is knownTo for tests outside the package.
var KnownTo = knownTo
