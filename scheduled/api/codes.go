package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Code tells a program why a call was refused. A code keeps its meaning within /v1.
type Code string

// The codes of refusals. The list codeRules has their meanings.
const (
	CodeMalformed        Code = "malformed"
	CodeBadCondition     Code = "bad_condition"
	CodeUnauthenticated  Code = "unauthenticated"
	CodeNotAllowed       Code = "not_allowed"
	CodeScopeMissing     Code = "scope_missing"
	CodeTenantNotAllowed Code = "tenant_not_allowed"
	CodeTypeNotAllowed   Code = "type_not_allowed"
	CodeQueueNotAllowed  Code = "queue_not_allowed"
	CodeReserved         Code = "reserved"
	CodeNoSuchTask       Code = "no_such_task"
	CodeNoDefaults       Code = "no_defaults"
	CodeNoCalendar       Code = "no_such_calendar"
	CodeNoSuchPath       Code = "no_such_path"
	CodeNotRecurring     Code = "not_recurring"
	CodeNoSuchMethod     Code = "no_such_method"
	CodeBodyTooSlow      Code = "body_too_slow"
	CodeWriteConflict    Code = "write_conflict"
	CodeIDTaken          Code = "id_taken"
	CodeTaskRunning      Code = "task_running"
	CodeTaskFinished     Code = "task_finished"
	CodeKindDiffers      Code = "kind_differs"
	CodeDuplicate        Code = "duplicate"
	CodeCalendarUsed     Code = "calendar_used"
	CodeKeyInUse         Code = "idempotency_key_in_use"
	CodeKeyReused        Code = "idempotency_key_reused"
	CodeChanged          Code = "precondition_failed"
	CodeBodyTooLarge     Code = "body_too_large"
	CodeNotJSON          Code = "not_json"
	CodeInvalid          Code = "invalid"
	CodeTooManyCalls     Code = "too_many_calls"
	CodeClientGone       Code = "client_gone"
	CodeFailed           Code = "failed"
	CodeDatabaseAway     Code = "database_away"
	CodeTooSlow          Code = "too_slow"
	CodeLocked           Code = "locked"
	CodeStarting         Code = "starting"
	CodeKeyUnchecked     Code = "key_unchecked"
	CodeTooManyBodies    Code = "too_many_bodies"
	CodeTooManyReads     Code = "too_many_reads"
	CodeTooManyChanges   Code = "too_many_changes"
	CodeTooManyWaits     Code = "too_many_waits"
	CodeTooManyStreams   Code = "too_many_streams"
	CodeBusy             Code = "busy"
	CodeAnswerTooLarge   Code = "answer_too_large"
	CodeEventTooOld      Code = "event_too_old"
	CodeNotMigrated      Code = "not_migrated"
)

// codeRule is what a code means. again says that the same call may succeed later, so that the answer has Retry-After.
type codeRule struct {
	code   Code
	status int
	again  bool
	text   string
}

// codeRules is the only list of codes. The document's list is made of it. The first code of a status is that of
// refusals that have no code of their own, because huma makes them.
var codeRules = []codeRule{
	{CodeMalformed, 400, false, "the body or a parameter cannot be read"},
	{CodeBadCondition, 400, false, "If-Match or If-None-Match is malformed, or is not for this call"},
	{CodeUnauthenticated, 401, false, "the key is missing, unknown, revoked or expired"},
	{CodeNotAllowed, 403, false, "the database does not allow it"},
	{CodeScopeMissing, 403, false, "the key lacks the scope"},
	{CodeTenantNotAllowed, 403, false, "it is about another tenant, or about all"},
	{CodeTypeNotAllowed, 403, false, "the key may not change tasks of this type"},
	{CodeQueueNotAllowed, 403, false, "the key may not change tasks of this queue"},
	{CodeReserved, 403, false, "the task is a notice or their watch, which are the engine's"},
	{CodeNoSuchTask, 404, false, "the caller sees no task of this id"},
	{CodeNoDefaults, 404, false, "the type has no defaults"},
	{CodeNoCalendar, 404, false, "there is no such calendar"},
	{CodeNoSuchPath, 404, false, "the API has no such path"},
	{CodeNotRecurring, 404, false, "the task does not recur"},
	{CodeNoSuchMethod, 405, false, "the path has other methods"},
	{CodeBodyTooSlow, 408, false, "the body did not arrive in time"},
	{CodeWriteConflict, 409, true, "others write the same task"},
	{CodeIDTaken, 409, false, "a task of another tenant has the id"},
	{CodeTaskRunning, 409, false, "the task is running, and must be cancelled first"},
	{CodeTaskFinished, 409, false, "the task has ended, and the edit would run it again"},
	{CodeKindDiffers, 409, false, "one of the task and the call recurs, and replace is not true"},
	{CodeDuplicate, 409, false, "the task exists already, and if_exists is reject"},
	{CodeCalendarUsed, 409, false, "tasks use the calendar"},
	{CodeKeyInUse, 409, true, "a call with this Idempotency-Key is in progress"},
	{CodeKeyReused, 409, false, "the Idempotency-Key was used for another call"},
	{CodeChanged, 412, false, "the task is not as If-Match or If-None-Match asks"},
	{CodeBodyTooLarge, 413, false, "the body is too large"},
	{CodeNotJSON, 415, false, "the body is not JSON by its Content-Type"},
	{CodeInvalid, 422, false, "a field breaks a rule"},
	{CodeAnswerTooLarge, 422, false, "the answer would be too large"},
	{CodeEventTooOld, 422, false, "too much has happened since Last-Event-ID"},
	{CodeTooManyCalls, 429, true, "the key or the address makes too many calls"},
	{CodeTooManyBodies, 429, true, "the key has too many bytes of bodies under way"},
	{CodeTooManyReads, 429, true, "the key has too many calls under way for a reading one"},
	{CodeTooManyChanges, 429, true, "the key has too many calls under way for one that changes something"},
	{CodeTooManyWaits, 429, true, "the key has too many calls with wait under way"},
	{CodeTooManyStreams, 429, true, "the key has too many streams of events open"},
	{CodeClientGone, statusClientClosed, false, "the client closed the connection"},
	{CodeFailed, 500, false, "the call failed, and the log of the service says why"},
	{CodeDatabaseAway, 503, true, "the database does not answer"},
	{CodeTooSlow, 503, true, "the database did not finish the call in time"},
	{CodeLocked, 503, true, "somebody has locked the task for too long"},
	{CodeStarting, 503, true, "the service is starting or stopping"},
	{CodeKeyUnchecked, 503, true, "the key cannot be checked now"},
	{CodeBusy, 503, true, "all callers together have too many such calls under way"},
	{CodeNotMigrated, 503, false, "the database is not migrated"},
}

// statusClientClosed is for the log. No client reads it.
const statusClientClosed = 499

func (c Code) rule() codeRule {
	for _, rule := range codeRules {
		if rule.code == c {
			return rule
		}
	}
	return codeRule{code: c, status: http.StatusInternalServerError}
}

// codeOf returns the code of a refusal that has only a status.
func codeOf(status int) Code {
	for _, rule := range codeRules {
		if rule.status == status {
			return rule.code
		}
	}
	return CodeMalformed
}

// codesText lists the codes for the document.
func codesText() string {
	var text strings.Builder
	for _, rule := range codeRules {
		if rule.status == statusClientClosed {
			continue
		}
		fmt.Fprintf(&text, "%d %s: %s. ", rule.status, rule.code, rule.text)
	}
	return strings.TrimSpace(text.String())
}

// Problem is an error as the API answers it (RFC 9457).
type Problem struct {
	huma.ErrorModel

	Code Code `json:"code"`
}

// refusal is an error of a call. The code says which status the answer has.
func refusal(code Code, detail string) *Problem {
	status := code.rule().status
	return &Problem{huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail}, code}
}

// invalid refuses a call because a field breaks a rule. detail names both.
func invalid(detail string) *Problem { return refusal(CodeInvalid, detail) }

// sayWhen sets Retry-After if the same call may succeed later, unless it is set already.
func (p *Problem) sayWhen(header http.Header) {
	if p.Code.rule().again && header.Get("Retry-After") == "" {
		header.Set("Retry-After", "1")
	}
}

// WriteProblem writes a refusal in the form that the API's endpoints write. It is for a server that cannot call the API
// yet, such as one that is starting.
func WriteProblem(w http.ResponseWriter, code Code, detail string) {
	problem := refusal(code, detail)
	problem.sayWhen(w.Header())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(problem.Status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(problem) // the client may be gone, and then nobody reads the error
}
