package api

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

var (
	// errAllTenants refuses a caller with a tenant.
	errAllTenants = refusal(CodeTenantNotAllowed,
		"a key of a tenant may not use this, because it is about all tenants")
	errNoTask   = refusal(CodeNoSuchTask, "no such task")
	errReserved = refusal(CodeReserved, "ids that begin with notice/, the id notice-watch, and the types NOTICE and "+
		"NOTICE_WATCH are the engine's; recipients and rules are set by tasktable notices")
	errConflict = refusal(CodeWriteConflict, "others write the same task; try again")
)

// answer turns an error into an answer. An error that is not about the call becomes a 503 or a 500. Its text goes to
// the log alone, because it may tell about the database.
func (a *API) answer(ctx context.Context, err error) error {
	var status huma.StatusError
	var refused *pgconn.PgError
	var tooLarge *tooLargeError
	unbound, text := keys.Unbound(err)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return refusal(CodeAnswerTooLarge, tooLarge.Error())
	case errors.As(err, &status):
		return err
	case errors.Is(err, store.ErrInvalid):
		return invalid(ruleOf(err))
	case errors.Is(err, store.ErrKindDiffers):
		_, rule, _ := strings.Cut(ruleOf(err), store.ErrKindDiffers.Error()+": ")
		return refusal(CodeKindDiffers, rule+"; change some of its fields by PATCH, or add ?replace=true")
	case errors.Is(err, store.ErrDuplicate):
		return refusal(CodeDuplicate, "the task exists already")
	case errors.Is(err, store.ErrNotFound):
		return errNoTask
	case errors.Is(err, store.ErrNotRecurring):
		return refusal(CodeNotRecurring, "the task is not a recurring one")
	case pg.IsConflict(err):
		return errConflict
	case pg.IsLocked(err):
		return refusal(CodeLocked, "somebody else has locked the task for too long; try again")
	case unbound == "type":
		return refusal(CodeTypeNotAllowed, text)
	case unbound == "queue":
		return refusal(CodeQueueNotAllowed, text)
	case pg.IsNotAllowed(err):
		return refusal(CodeNotAllowed, "the database does not allow it")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return refusal(CodeClientGone, "the client closed the connection")
	}
	a.config.Logger.Error("a call failed", "request", requestID(ctx), "error", err)
	switch {
	case errors.Is(err, store.ErrUnmigrated):
		return refusal(CodeNotMigrated, "the database is not migrated")
	case errors.As(err, &refused) && !isAway(refused.Code):
		return refusal(CodeFailed, "the call failed; the log of the service says why")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return refusal(CodeTooSlow, "the database did not finish the call in time, for example because somebody has "+
			"locked a task; try again")
	}
	return refusal(CodeDatabaseAway, "the database does not answer; try again")
}

var bulkPlace = regexp.MustCompile(`task [0-9]+ of [0-9]+: $`)

// ruleOf returns the part of the store's error that names the field and the rule, and in a bulk call the task.
func ruleOf(err error) string {
	text := err.Error()
	if refused := new(pgconn.PgError); errors.As(err, &refused) { // its text has a severity and a code around the rule
		text = strings.Replace(text, refused.Error(), refused.Message, 1)
	}
	before, rule, found := strings.Cut(text, store.ErrInvalid.Error()+": ")
	if !found {
		return text
	}
	return bulkPlace.FindString(before) + rule
}

// awayClasses are the classes of codes with which the database, or a pooler, says that it restarts, is full, or has
// ended the connection or the statement.
var awayClasses = []string{"08", "53", "57"}

// awayCodes are the codes for the same in other classes.
var awayCodes = []string{
	"25006", // read-only: the database is a standby, shortly after a failover
	"25P03", // idle_in_transaction_session_timeout
	"25P04", // transaction_timeout
}

// isAway reports whether the client can repeat the call, because the reason is about the database and will end.
func isAway(code string) bool {
	return len(code) == 5 && slices.Contains(awayClasses, code[:2]) || slices.Contains(awayCodes, code)
}

// isPlain reports whether no part of a path is empty, "." or "..". ServeMux redirects other paths, and a client that
// follows the redirect would call the wrong task: /v1/tasks//pause, with an empty id, would become the task pause.
func isPlain(escapedPath string) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(escapedPath, "/"), "/") {
		if part == "" && escapedPath != "/" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// noEndpoint answers a path that has no endpoint, or not for the method.
func noEndpoint(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeProblem(w, CodeNoSuchPath, "no such path; /openapi.json lists them")
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, CodeNoSuchMethod, "the path has the methods "+strings.Join(allowed, ", "))
}
