package dashboard

import (
	"cmp"
	"context"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
)

// Route is a page or an act.
type Route struct {
	Method, Path string
	Needs        Scopes
	Global       bool
}

// Routes returns all pages and acts.
func Routes() (routes []Route) {
	for _, p := range pages {
		routes = append(routes, Route{"GET", p.path, cmp.Or(p.needs, Read), p.global})
	}
	for _, a := range acts() {
		routes = append(routes, Route{"POST", a.path, a.needs, a.global})
	}
	return routes
}

// LimitStreams changes how many streams, and how many different pages, can be open.
func (d *Dashboard) LimitStreams(streams, pages int) {
	d.feeds.streams, d.feeds.maxFeeds = fairuse.NewShares(int64(streams), maxOfPerson), pages
}

// OpenFeeds returns how many streams, and how many different pages, are open.
func (d *Dashboard) OpenFeeds() (streams, pages int) {
	d.feeds.mutex.Lock()
	defer d.feeds.mutex.Unlock()
	for _, feed := range d.feeds.open {
		streams += len(feed.readers)
	}
	return streams, len(d.feeds.open)
}

// TaskPath returns the path of a task's page.
func TaskPath(id string) string { return taskPath(id) }

// Snapshot returns the snapshot by which feeds notice a change.
func (d *Dashboard) Snapshot(ctx context.Context) (string, error) { return d.feeds.snapshot(ctx) }

// LookEach is how often the database is asked whether anything has changed.
const LookEach = lookEach
