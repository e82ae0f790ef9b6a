// Package tasknews tells sessions and other nodes how tasks are, and has clients asked what their
// tasks wait for, by one node at a time.
//
// # Reminders
//
// In 2025-11-25 a client takes the questions of a task from tasks/result. Clients that call it only after the end, and poll tasks/get until then,
// would never have them, so the node that runs the task, and any that is asked how it is, reminds the session that made it: the node that
// writes the session's standalone stream puts the questions there. Whoever puts questions tells all nodes, so that nobody else does.
package tasknews
