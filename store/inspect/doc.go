// Package inspect lists and searches tasks, tells why a task does or does not run, shows queues, nodes and
// statistics, and changes many tasks at once. It is for people who operate tasks, and therefore for command lines,
// dashboards, reports and health checks. The commands of the program tasktable use it.
//
//	inspector := inspect.New(store.Config{Service: "admin"})
//	dead, err := inspector.List(ctx, pool, inspect.DeadLetters())
//
// An application that schedules a task and follows it by its id does not need this package. Package store has Get and
// History for that, and verbs that change one task by its id. Most calls of package inspect read whole tables, and
// some need rights that an application's role does not have.
package inspect
