// Package dashboard shows tasks in a browser. It tells why a task does or does not run, and lets people act on tasks.
// It is an http.Handler for the mux of a service. `tasktable serve --dashboard` serves it, too.
//
//	board, err := dashboard.New(dashboard.Config{Pool: pool, Prefix: "/admin/tasks"})
//	mux.Handle("/admin/tasks/", board.Handler())
//
// Pages are HTML that the server renders. They work without JavaScript. With it, an open page follows what it shows.
//
// # How it is built
//
// A page is a view and a template. The view reads, by a call of package store or of store/inspect, and returns a value.
// The template of the same name shows the value. An act is a form that is sent by POST. It changes tasks by a verb of
// package store, in one transaction and in the name of the person, and then leads back to a page.
//
//   - Each kind of page has a file, such as tasks.go, and a template. Its register function adds its pages and acts.
//   - person.go tells who somebody is, and signin.go signs people in by a key.
//   - visit.go has the things that a view works with, and frame.go those that a template works with.
//   - live.go reads an open page again after a change, once for all who look at it.
//   - protect.go keeps pages of other sites out.
//   - internal/words writes times and numbers for people, and internal/chart draws.
package dashboard
