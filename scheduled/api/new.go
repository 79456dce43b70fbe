package api

import (
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
	"github.com/tasktable/tasktable/store"
)

// New returns an API that is complete. It returns an error that names each wrong field of the Config.
func New(config Config) (*API, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	schema, err := store.NewSchema(config.Store.Schema)
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if config.Keys == nil {
		config.Keys = keys.New(keys.Config{Schema: schema})
	}
	a := &API{config: config, answers: answers{schema: schema},
		callers: fairuse.NewRates(), shares: newShares(), ended: newEnded(schema),
	}
	a.events = &eventReader{api: a}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, document(config.Version))
	a.huma.UseMiddleware(a.authenticate)
	a.registerTasks()
	a.registerTaskReads()
	a.registerVerbs()
	a.registerRecurring()
	a.registerDeadLetters()
	a.registerOperations()
	a.registerEvents()
	finishSchemas(a.huma.OpenAPI())
	if err := a.registerDocs(mux); err != nil {
		return nil, err
	}
	if a.metrics, err = newCallMetrics(config.Metrics, operationsOf(a.huma.OpenAPI())); err != nil {
		return nil, err
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { noEndpoint(mux, w, r) })
	a.handler = a.protect(mux)
	return a, nil
}
