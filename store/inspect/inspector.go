package inspect

import (
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Inspector reads tasks, queues and nodes, and changes many tasks at once. It holds no connection, and may be used by
// many goroutines.
type Inspector struct {
	config store.Config
	source query.Source // each call returns its Err
	tasks  *store.Store
}

// New makes an Inspector for the schema of the config. Its Service is the author of the changes that Apply makes. A
// malformed configuration is reported by the first call.
func New(config store.Config) *Inspector {
	schema, err := store.NewSchema(config.Schema)
	if err == nil {
		err = check.Text("service", config.Service)
	}
	return &Inspector{config: config, source: query.Source{Schema: schema, Err: err}, tasks: store.New(config)}
}
