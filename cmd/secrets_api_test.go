package cmd

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collected "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// webhookCanarySecret signs requests. Its bytes are a canary.
var webhookCanarySecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(webhookCanary))

// apiCage is a cage with a node that serves the API to one key, and that calls a server.
type apiCage struct {
	*cage

	node   *process
	base   string
	key    string
	calls  *httptest.Server // receives the requests of the tasks
	traces func() string
}

// A caller shows a key, schedules requests with secrets, and does all wrong that one can do wrong. The API says and
// writes no secret. The payload is in the answers that have the task, and nowhere else.
func TestAPITellsNoSecrets(t *testing.T) {
	t.Parallel()
	c := newAPICage(t)
	c.asks()
	c.asksWrongly()
	c.breaks()
	_, metrics := get(t, c.base+"/metrics")
	got := c.node.stop("answered 500 to POST 127.0.0.1", "ERROR: broken (SQLSTATE XX000)", "status=401")
	if !strings.Contains(c.traces(), "/v1/tasks/{id}") {
		t.Error("there are no traces of calls")
	}
	for where, text := range map[string]string{
		"the log": got.stderr + got.stdout, "the metrics": metrics,
		"the traces": c.traces(),
	} {
		c.noSecret(where, text)
	}
	for where, sql := range map[string]string{
		"stored answers": `SELECT a::text FROM tasktable.api_answers AS a`,
		"keys":           `SELECT k::text FROM tasktable.api_keys AS k`,
		"executions":     `SELECT e::text FROM tasktable.scheduled_task_executions AS e`,
		"nodes":          `SELECT n::text FROM tasktable.nodes AS n`,
		"River's jobs":   `SELECT row FROM public.jobs_seen`,
		"tasks":          `SELECT (to_jsonb(t) - 'payload')::text FROM tasktable.scheduled_tasks AS t`,
	} {
		lines := c.lines(sql)
		if len(lines) == 0 {
			t.Errorf("%s: there is nothing to look at", where)
		}
		c.noSecret(where, strings.Join(lines, "\n"))
	}
	c.payloadsInHistory("edited schedule rescheduled", "edited schedule rescheduled", "deleted delete deleted")
}

func newAPICage(t *testing.T) *apiCage {
	t.Helper()
	c := &apiCage{cage: newCage(t)}
	c.calls = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fine" {
			return
		}
		w.WriteHeader(http.StatusInternalServerError) // its body repeats the request
		_ = r.Header.Write(w)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(c.calls.Close)
	endpoint, traces := collector(t)
	c.traces = traces
	created := run(t, []string{"DATABASE_URL=" + c.url}, "keys", "create", "canary", "--scope=read,schedule,operate")
	created.want(t, exitOK)
	c.key = strings.TrimSpace(created.stdout)
	c.noSecret("the making of a key", created.stderr)
	c.node, c.base = probed(t, []string{
		"DATABASE_URL=" + c.url, "TASKTABLE_WEBHOOK_SECRETS=orders=" + webhookCanarySecret,
		"TASKTABLE_WEBHOOK_ALLOW=127.0.0.0/8", "OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint,
		"OTEL_BSP_SCHEDULE_DELAY=100",
	}, "--api", "--log-level=debug")
	becomes(t, c.base+"/readyz", http.StatusOK)
	return c
}

// collector takes spans. The function returns them as text.
func collector(t *testing.T) (endpoint string, spans func() string) {
	t.Helper()
	var mu sync.Mutex
	var text strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collected.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &request) != nil {
			t.Errorf("not understood: %v %q", err, body)
		}
		mu.Lock()
		defer mu.Unlock()
		text.WriteString(request.String())
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

func (c *apiCage) noSecret(where, text string) {
	c.t.Helper()
	noCanary(c.t, where, text)
	// A list of keys shows the first eight bytes.
	if c.key != "" && strings.Contains(text, c.key[8:]) {
		c.t.Errorf("%s: the key has escaped:\n%s", where, text)
	}
}

// call wants the status. The answer may have the payload only if shown says so.
func (c *apiCage) call(status int, shown bool, method, path, body string, headers ...string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		c.t.Errorf("%s %s: %d %s, want %d, %v", method, path, answer.StatusCode, text, status, err)
	}
	var header strings.Builder
	_ = answer.Header.Write(&header)
	if !shown {
		c.noSecret(method+" "+path, header.String()+string(text))
		return
	}
	found := escaped(header.String() + string(text))
	if !slices.Equal(found, []string{payloadCanary}) {
		c.t.Errorf("%s %s shows %v, and ought to show the payload alone: %s", method, path, found, text)
	}
}

// request is the payload of a call of the path, with secrets in all its parts.
func (c *apiCage) request(path string) string {
	const canary = payloadCanary
	return `{"type": "HTTP_REQUEST", "url": "` + c.calls.URL + path + `?token=` + canary + `", "sign_with": "orders",
		"headers": {"Authorization": "Bearer ` + canary + `"}, "body": {"secret": "` + canary + `"}}`
}

// asks calls as it ought to be done.
func (c *apiCage) asks() {
	c.t.Helper()
	later := `, "scheduled_at": "2100-01-01T00:00:00Z"`
	secret := `{"payload": {"type": "LOG", "secret": "` + payloadCanary + `"}`
	for range 2 { // the second answer is a stored one
		c.call(http.StatusCreated, false, "POST", "/v1/tasks", `{"id": "fails", "max_attempts": 1, "payload": `+
			c.request("/"+payloadCanary)+`}`, "Idempotency-Key", "one")
	}
	c.call(http.StatusCreated, false, "PUT", "/v1/tasks/fine", `{"payload": `+c.request("/fine")+`}`)
	c.call(http.StatusOK, false, "POST", "/v1/tasks/bulk", `{"tasks": [`+secret+later+`, "id": "deleted"},
		`+secret+later+`, "id": "edited"}]}`, "Idempotency-Key", "many")
	c.call(http.StatusOK, false, "PUT", "/v1/tasks/edited", strings.Replace(secret, payloadCanary, payloadCanary+"2", 1)+
		later+`}`)
	c.call(http.StatusOK, false, "PATCH", "/v1/tasks/edited", `{"payload": {"secret": "`+payloadCanary+`3"}}`)
	ask(c.t, c.url, `SELECT string_agg(id || ' ' || status, ', ' ORDER BY id) FROM tasktable.scheduled_tasks
		WHERE id IN ('fails', 'fine')`, "fails FAILED, fine COMPLETED")
	for _, verb := range []string{"pause", "resume", "cancel"} {
		c.call(http.StatusOK, false, "POST", "/v1/tasks/edited/"+verb, "", "Idempotency-Key", verb)
	}
	for _, path := range []string{"/v1/tasks/fails", "/v1/tasks/fine", "/v1/tasks/fails/why", "/v1/tasks/edited/changes",
		"/v1/tasks", "/v1/tasks?type=HTTP_REQUEST", "/v1/dead-letters"} {
		c.call(http.StatusOK, true, "GET", path, "")
	}
	for _, path := range []string{"/v1/tasks/fails/executions", "/v1/tasks/fine/executions", "/v1/tasks/fine/changes",
		"/v1/queues", "/v1/nodes", "/v1/stats", "/v1/recurring", "/openapi.json", "/docs", "/", "/metrics", "/readyz"} {
		c.call(http.StatusOK, false, "GET", path, "")
	}
	c.call(http.StatusOK, false, "DELETE", "/v1/tasks/deleted", "")
	c.call(http.StatusOK, false, "POST", "/v1/dead-letters/archive", `{"filter": {}}`)
}

// asksWrongly calls as it ought not to be done.
func (c *apiCage) asksWrongly() {
	c.t.Helper()
	const canary = payloadCanary
	c.call(http.StatusUnauthorized, false, "GET", "/v1/tasks", "", "Authorization", "Bearer "+c.key+"x")
	c.call(http.StatusUnauthorized, false, "GET", "/v1/tasks", "", "Authorization", "Basic "+c.key)
	c.call(http.StatusConflict, false, "POST", "/v1/tasks", `{"payload": {"type": "LOG", "a": "`+canary+`"}}`,
		"Idempotency-Key", "one")
	for _, payload := range []string{
		strings.Replace(c.request("/a"), "http://", "http://"+canary+":"+canary+"@", 1),
		strings.Replace(c.request("/a"), "http://", canary+"://", 1),
		strings.Replace(c.request("/a"), `"Bearer `, `"\n`, 1),
		strings.Replace(c.request("/a"), `"sign_with": "orders"`, `"sign_with": {"`+canary+`": "`+canary+`"}`, 1),
		strings.Replace(c.request("/a"), `"sign_with": "orders"`, `"expected_status": ["`+canary+`"]`, 1),
		strings.Replace(c.request("/a"), `"sign_with": "orders"`, `"timeout": "`+canary+`"`, 1),
		strings.Replace(c.request("/a"), `"sign_with": "orders"`, `"method": "`+canary+`"`, 1),
		`{"type": "LOG !", "a": "` + canary + `"}`, `{"type": "LOG", "a": "\u0000` + canary + `"}`,
		`{"secret": "` + canary + `"}`, `["` + canary + `"]`,
	} {
		c.call(http.StatusUnprocessableEntity, false, "PUT", "/v1/tasks/wrong", `{"payload": `+payload+`}`)
	}
	c.call(http.StatusBadRequest, false, "PUT", "/v1/tasks/wrong", `{"payload": {"type": "LOG", "a": "`+canary+`"`)
}

// breaks calls while the database is broken, whose errors have the row.
func (c *apiCage) breaks() {
	c.t.Helper()
	payload := `{"payload": {"type": "LOG", "secret": "` + payloadCanary + `", "unique": "` + payloadCanary + `"}}`
	c.exec(`CREATE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'broken' USING ERRCODE = 'XX000', DETAIL = NEW.payload::text; END $$`)
	c.exec(`CREATE TRIGGER broken BEFORE INSERT ON tasktable.scheduled_tasks FOR EACH ROW
		WHEN (NEW.id = 'broken') EXECUTE FUNCTION public.broken()`)
	c.exec(`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "not this" CHECK (id <> 'refused')`)
	c.exec(`CREATE UNIQUE INDEX ON tasktable.scheduled_tasks ((payload->>'unique'))`)
	c.call(http.StatusInternalServerError, false, "PUT", "/v1/tasks/broken", payload)
	c.call(http.StatusUnprocessableEntity, false, "PUT", "/v1/tasks/refused", payload)
	c.call(http.StatusCreated, false, "PUT", "/v1/tasks/unique", payload)
	c.call(http.StatusInternalServerError, false, "PUT", "/v1/tasks/another", payload)
}
