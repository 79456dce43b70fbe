package taskdb

import "github.com/tasktable/tasktable/store"

// Queries are the engine's SQL for one schema. Each statement takes `now`, so that a test can run it at any time.
// Null means the database's clock.
type Queries struct {
	Schema store.Schema
	Zones  *Zones // nil means the machine's time zones
}

// EnterSQL sets the context "engine". This context tells the triggers that an expiry is not somebody's edit. The
// setting ends with the transaction. In a longer transaction, LeaveSQL puts it back.
const EnterSQL = `SELECT set_config('tasktable_change.context', 'engine', true)`

// LeaveSQL ends the context that EnterSQL has set, inside a transaction that goes on with something else.
const LeaveSQL = `SELECT set_config('tasktable_change.context', '', true)`

// column returns a value of each row, because unnest takes rows as one list for each column.
func column[T, V any](rows []T, of func(*T) V) []V {
	values := make([]V, len(rows))
	for i := range rows {
		values[i] = of(&rows[i])
	}
	return values
}

func idsOf(claims []Claim) []string   { return column(claims, func(c *Claim) string { return c.ID }) }
func fencesOf(claims []Claim) []int64 { return column(claims, func(c *Claim) int64 { return c.Fence }) }
func revisionsOf(claims []Claim) []int64 {
	return column(claims, func(c *Claim) int64 { return c.Revision })
}
