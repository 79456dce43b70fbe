package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
)

// generatedRequests are made for each operation. They are the same in each run.
const generatedRequests = 60

// encodedCursor is a next_cursor of a task "task".
const encodedCursor = "eyJpIjoidGFzayIsInMiOiIyMTAwLTAxLTAxVDAwOjAwOjAwWiJ9"

// Each operation keeps what the document promises, whatever the request: no 5xx, a status that is documented, errors
// that are problems, and answers that fit their schema.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	s := newService(t)
	handler, operations := s.api.Handler(), s.operations()
	generators := make([]*generator, len(operations))
	for i := range generators {
		generators[i] = &generator{rand.New(rand.NewPCG(1, uint64(i))), s.api.OpenAPI().Components.Schemas}
	}
	succeeded := map[string]int{}
	for round := range generatedRequests {
		if round%10 == 0 {
			s.stage()
		}
		for i, op := range operations {
			if op.OperationID == "followEvents" { // it has no end; events_test.go has its tests
				continue
			}
			method, path, body, header := generators[i].request(op)
			request, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			if err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			request.Header, request.RemoteAddr = header, "192.0.2.1:1"
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			for _, broken := range s.promises(op, answer) {
				t.Errorf("%s: %s\n%s %s\n%v\n%.2000s\nanswer %d %.2000s", op.OperationID, broken, method, path, header,
					body, answer.Code, answer.Body)
			}
			if answer.Code < 300 {
				succeeded[op.OperationID]++
			}
		}
	}
	for _, op := range operations {
		if succeeded[op.OperationID] == 0 && op.OperationID != "followEvents" {
			t.Errorf("no request for %s has succeeded, so its answers were not checked", op.OperationID)
		}
	}
}

// stage makes the tasks that generated requests name. Earlier requests may have changed or deleted them.
func (s *service) stage() {
	s.Helper()
	s.asEngine(`UPDATE tasktable.scheduled_tasks SET fence = NULL, lease_expires_at = NULL, status = 'CANCELLED',
		next_attempt_at = NULL, finished_at = clock_timestamp() WHERE fence IS NOT NULL`)
	s.exec(`DELETE FROM tasktable.scheduled_tasks WHERE id IN ('task', 'a/b', 'dead', 'running', 'recurring')`)
	s.make("task", store.StatusQueued)
	s.make("a/b", store.StatusPaused)
	s.make("dead", store.StatusFailed)
	s.make("running", store.StatusExecuting)
	s.wants(201, "all", "PUT", "/v1/tasks/recurring", `{"payload": {"type": "LOG"}, "cron": "@daily"}`)
}

// promises returns what an answer breaks of the promises of its operation.
func (s *service) promises(op *huma.Operation, answer *httptest.ResponseRecorder) (broken []string) {
	documented := op.Responses[strconv.Itoa(answer.Code)]
	emptyPart := answer.Code == 404 && strings.Contains(answer.Body.String(), "no such path")
	var body any
	err := json.Unmarshal(answer.Body.Bytes(), &body)
	switch {
	case answer.Code >= 500:
		return []string{"a status of 5xx"}
	case documented == nil && !emptyPart:
		return []string{"a status that the document does not have"}
	case err != nil:
		return []string{"no JSON: " + err.Error()}
	case answer.Code >= 400:
		fields, _ := body.(map[string]any)
		if answer.Header().Get("Content-Type") != "application/problem+json" {
			broken = append(broken, "Content-Type "+answer.Header().Get("Content-Type"))
		}
		if fields["status"] != float64(answer.Code) || fields["detail"] == "" || fields["detail"] == nil {
			broken = append(broken, "no problem with a status and a detail")
		}
		return broken
	case answer.Header().Get("Content-Type") != "application/json":
		broken = append(broken, "Content-Type "+answer.Header().Get("Content-Type"))
	}
	result := &huma.ValidateResult{}
	huma.Validate(s.api.OpenAPI().Components.Schemas, documented.Content["application/json"].Schema,
		huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, body, result)
	for _, err := range result.Errors {
		broken = append(broken, fmt.Sprintf("the answer does not fit its schema: %v", err))
	}
	return broken
}
