// Package inspect is for those who operate tasks: command lines, dashboards, reports and health checks. It lists and
// searches tasks, tells why a task does or does not run, shows queues, nodes and statistics, and changes many tasks
// at once. The commands of the program tasktable are made of it.
//
//	inspector := inspect.New(store.Config{Service: "admin"})
//	dead, err := inspector.List(ctx, pool, inspect.DeadLetters())
//
// Package store has all that an application needs to schedule a task and to follow it by its id: Get and History. Its
// verbs change one task by its id. Most calls of this package read whole tables, and some need rights that an
// application's role does not have.
package inspect
