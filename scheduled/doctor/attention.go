package doctor

import (
	"context"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// attention reports what needs a person now, as the dashboard's overview does.
func (e *examination) attention(ctx context.Context) error {
	// As on the engine's connections, Postgres must use the index, even if its statistics are wrong.
	if _, err := e.tx.Exec(ctx, "SET LOCAL enable_seqscan = off; SET LOCAL jit = off"); err != nil {
		return err
	}
	found, err := e.inspector.Attention(ctx, e.tx)
	for _, one := range found {
		do := one.Do
		if schema := e.schema.String(); schema != store.DefaultSchema {
			do = strings.ReplaceAll(do, "tasktable ", "TASKTABLE_SCHEMA="+schema+" tasktable ")
		}
		e.find(Level(one.Level), do, "%s", line(one.Found))
	}
	if len(found) == 0 && err == nil {
		e.ok("nothing needs a person")
	}
	return err
}
