// Package hostfile reads which backends there are from the files that people have, unchanged, and from the section
// backends of the configuration file:
//
//	mcpServers   Claude Desktop, Claude Code, Cursor, Windsurf, Cline, Gemini, Qwen and others
//	servers      VS Code, with inputs
//	backends     the configuration file of the command, with every option of package host
//
// The first two are JSON, with comments and commas behind the last item; keys that mean nothing here become a [Note].
// The section is strict. A backend that is wrong has its mistakes as its own error, each an [*Error] with file, line and
// place, and the others are there. What a reference such as ${VAR} names and does not exist is such an error, too
// ([ErrUnset]), and never text.
//
// # References
//
// Commands, arguments, variables, URLs, headers and paths may have references:
//
//	${VAR}  ${env:VAR}       a variable of this process; it may be empty
//	${VAR:-x}  ${env:VAR:-x} x where the variable is unset or empty
//	${file:PATH}             the text of a file, without the line breaks at its end
//	${input:ID}              the variable INPUT_ID for an input of the file, or the input's default
//	${workspaceFolder}       the directory of the file, or the one above if its name begins with a dot
//	${workspaceFolderBasename}  ${userHome}  ${pathSeparator}  ${/}
//	$${                      the text ${
//
// A default and a PATH may have references themselves, which are resolved only where they are used; a default ends at the
// first brace that closes none of them. What comes out is not read for references again. $VAR without braces is text, but for
// a variable or a header in the file of a client that is nothing else, or that behind a word such as Bearer: Gemini has those.
//
// # Secrets
//
// The values of variables, headers, files and inputs are secret, and so are those of variables of this process in other
// places, but for the few that every command gets anyway. A [Backend] shows none of them: printed it is its name, Lines
// has what the file says, and Mask hides them in a text of somebody else. No error has a value.
//
// All functions may be called from any goroutine. A [File] and its backends are not changed once they are read.
package hostfile
