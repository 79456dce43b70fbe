package dashboard

import "context"

// overviewView is the first page.
type overviewView struct{}

func overview(context.Context, *visit) (any, error) { return overviewView{}, nil }
