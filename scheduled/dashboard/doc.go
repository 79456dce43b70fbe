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
// A page is a view and a template. The view is a function. It reads, by calls of package store or of store/inspect, and
// returns a value, which the template shows. An act is a form that is sent by POST. It changes tasks by a verb of
// package store, in one transaction and in the name of the person. Then it leads back to a page. An act that needs an
// answer first shows a page instead, and its transaction is undone.
//
//   - routes.go lists all pages and acts, and who may use them. Each kind of page has files, such as tasks.go and
//     tasks_filter.go, and templates.
//   - page.go reads a page and tells of errors, act.go runs acts, and render.go renders.
//   - person.go tells who somebody is, signin.go signs people in by a key, and look.go keeps their zone and colors.
//   - visit.go has the things that a view works with, and frame.go those that a template works with.
//   - form.go and moment.go read forms. change.go shows changes, and text.go and pointers.go help to write texts.
//   - live.go reads an open page again after a change, once for all who look at it. kept.go keeps what many pages read.
//   - protect.go keeps pages of other sites out.
//   - internal/words writes times, lengths and numbers for people, and reads them. internal/chart draws.
package dashboard
