package host

// Main must be the first statement of the function main in a program that hosts commands. The program starts itself anew
// as the process that keeps them, which outlives it, and as the one that confines a command before it runs; there Main
// does that work and does not return. Anywhere else it does nothing, and costs nothing.
//
// Without it commands are direct children of the program: they end with it, a crash included, and Options.Confinement
// can only be tried.
func Main() {
	// TODO(#33): the keeper and the confining start are joined here.
}
