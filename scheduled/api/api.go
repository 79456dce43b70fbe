package api

import (
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// API answers calls over HTTP. It is safe for concurrent use.
type API struct {
	config  Config
	huma    huma.API
	handler http.Handler
	answers answers
	callers *fairuse.Rates
	authors sync.Map // *author by service
	events  *eventReader
	crew    crew
	shares  shares
	ended   *ended
	metrics *callMetrics
}

// author is a Store and an Inspector that record the same service. They are kept, because a Store limits how often it
// wakes the leader.
type author struct {
	tasks     *store.Store
	inspector *inspect.Inspector
}

// Handler returns the handler of all paths: /v1/, /docs, /openapi.json and /openapi.yaml.
func (a *API) Handler() http.Handler { return a.handler }

// author returns the Store and the Inspector of a caller.
func (a *API) author(caller Caller) *author {
	service := caller.Service
	if service == "" {
		service = caller.Name
	}
	if known, ok := a.authors.Load(service); ok {
		return known.(*author)
	}
	config := a.config.Store
	config.Service = service
	known, _ := a.authors.LoadOrStore(service, &author{tasks: store.New(config), inspector: inspect.New(config)})
	return known.(*author)
}
