package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// named are the types whose payload names something in the configuration of nodes, with the field that has the name. A
// node announces the type TYPE:NAME for each name that it has.
var named = map[string]string{"EXEC": "command", "RUN_SQL": "statement"}

// NamedIn returns what a payload names in the configuration of nodes: the field, such as command, the name, and the
// type that the nodes with the name announce, such as EXEC:backup. They are empty for a payload that names nothing.
func NamedIn(taskType string, payload json.RawMessage) (field, name, announced string) {
	if field = named[taskType]; field == "" {
		return "", "", ""
	}
	var fields map[string]any
	if err := json.Unmarshal(payload, &fields); err != nil {
		return "", "", "" // a sealed payload
	}
	name, _ = fields[field].(string)
	return field, name, taskType + ":" + name
}

const nodesWithTypeSQL = `
SELECT n.number, n.service, n.version, n.host, n.started_at, NULL::timestamptz AS gone_at, true AS able
FROM tasktable.nodes AS n WHERE n.dead_at IS NULL AND $1::text = ANY (n.types)
ORDER BY n.number LIMIT 1000`

// elsewhere tells which running nodes have what a failed task names, if the task failed on a node that lacks it. It
// returns "" for other tasks, and for a role that may not read the nodes.
func (i *Inspector) elsewhere(
	ctx context.Context, db store.DB, row store.Row, detail string, may mayRead,
) (string, error) {
	field, name, kind := NamedIn(row.Type, row.Payload)
	if field == "" || !may.Nodes || !strings.HasPrefix(detail, "this node has no "+field+" ") {
		return "", nil
	}
	nodes, err := query.Collect[nodeLife](ctx, i.source, db, "explain task "+row.ID, nodesWithTypeSQL, kind)
	switch {
	case err != nil:
		return "", err
	case len(nodes) == 0:
		return "no running node has " + field + " " + name, nil
	case len(nodes) == 1:
		return fmt.Sprintf("%s has %s %s, and runs tasks of type %s", nodes[0], field, name, kind), nil
	}
	return fmt.Sprintf("%d running nodes have %s %s, and run tasks of type %s", len(nodes), field, name, kind), nil
}
