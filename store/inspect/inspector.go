package inspect

import (
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Inspector reads tasks, queues and nodes, and changes many tasks at once. It holds no connection. It is safe for
// concurrent use.
type Inspector struct {
	config store.Config
	source query.Source // each call returns its Err
	tasks  *store.Store

	walkMost, sortMost, seriesMost, groupMost int
}

// New returns an Inspector for the schema of the config. The config's Service is recorded as the author of the
// changes that Do makes. New does not report a malformed configuration. The first call on the Inspector does.
func New(config store.Config) *Inspector {
	schema, _ := store.NewSchema(config.Schema)
	return &Inspector{
		config: config, source: query.Source{Schema: schema, Err: config.Check()}, tasks: store.New(config),
		walkMost: walkMost, sortMost: sortMost, seriesMost: seriesExact, groupMost: MaxGrouped,
	}
}
