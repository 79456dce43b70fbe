package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// Conditions are the headers that each changing call may have.
type Conditions struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"Makes repeats safe; see the beginning."`
	IfMatch        string `header:"If-Match" maxLength:"64" doc:"The ETag of the task; see the beginning."`
	IfNoneMatch    string `header:"If-None-Match" enum:"*" doc:"Only if there is no such task yet."`
}

func (c Conditions) conditions() Conditions { return c }

func (c Conditions) reads() bool { return false }

// conditionsOf refuses headers that would be ignored although they ask for something. An empty one is what a client
// sends that has lost the ETag.
func conditionsOf(r *http.Request) *Problem {
	if given := r.Header.Values("If-Match"); len(given) > 1 || len(given) == 1 && strings.TrimSpace(given[0]) == "" {
		return refusal(CodeBadCondition, `If-Match must be one header, with * or the ETag of a task, such as "57"`)
	}
	if given := r.Header.Values("If-None-Match"); r.Method != http.MethodGet && len(given) > 0 &&
		(len(given) > 1 || given[0] != "*") {
		return refusal(CodeBadCondition, "If-None-Match must be *")
	}
	return nil
}

// any reports whether the call depends on the task that there is.
func (c Conditions) any() bool { return c.IfMatch != "" || c.IfNoneMatch != "" }

var errNoneMatch = refusal(CodeBadCondition, "If-None-Match is for a call that may create the task")

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// given has the forms that an ETag comes in: as it was sent, without its quotes, or made a weak one by a proxy.
var givenETag = regexp.MustCompile(`^(W/)?"?([0-9]{1,19})"?$`)

// check returns an error if the task has another revision than the If-Match. row is nil if there is no task.
func (c Conditions) check(row *store.Row) error {
	if c.IfMatch == "" {
		return nil
	}
	var revisions []string
	for one := range strings.SplitSeq(c.IfMatch, ",") {
		found := givenETag.FindStringSubmatch(strings.TrimSpace(one))
		switch {
		case strings.TrimSpace(one) == "*" && row != nil:
			return nil
		case strings.TrimSpace(one) == "*":
		case found == nil:
			return refusal(CodeBadCondition, `If-Match must be * or the ETag of a task, such as "57"`)
		default:
			revisions = append(revisions, found[2])
		}
	}
	switch {
	case row == nil:
		return refusal(CodeChanged, "there is no such task, so no revision matches If-Match")
	case slices.Contains(revisions, strconv.FormatInt(row.Revision, 10)):
		return nil
	}
	return refusal(CodeChanged, fmt.Sprintf(
		"the task has the revision %d, and not that of If-Match: somebody has edited it; read it again", row.Revision))
}

// unchanged returns an error if the task is not as the conditions ask.
func (c call) unchanged(ctx context.Context, id string, given Conditions) error {
	if given.IfMatch == "" {
		return nil
	}
	row, err := c.locked(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return given.check(nil)
	case err != nil:
		return err
	}
	return given.check(&row)
}

// lockSQL keeps others from changing the task until the transaction ends.
const lockSQL = `SELECT FROM tasktable.scheduled_tasks WHERE id = $1::text FOR NO KEY UPDATE`

// locked locks a task and reads it, so that it cannot change before the call writes it.
func (c call) locked(ctx context.Context, id string) (store.Row, error) {
	row, err := c.tasks.Get(ctx, c.db, id) // it checks the id
	if err != nil {
		return row, err
	}
	rows, err := c.db.Query(ctx, c.schema.SQL(lockSQL), id)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		return store.Row{}, fmt.Errorf("lock task %s: %w", id, err)
	}
	return c.tasks.Get(ctx, c.db, id)
}
