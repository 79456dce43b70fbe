package dashboard

import "context"

func (d *Dashboard) registerOverview() {
	d.page(page{path: "/{$}", template: "overview", title: "Overview", global: true}, overview)
}

// overviewView is the first page.
type overviewView struct{}

func overview(context.Context, *visit) (any, error) { return overviewView{}, nil }
