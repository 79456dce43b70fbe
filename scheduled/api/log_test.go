package api_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
)

// canary is in payloads, keys and texts of people. It must never be in the log.
const canary = "canary8f3a"

// No answer and no failure brings a payload, a key or a text of a person into the log.
func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	s := newService(t)
	secret := `{"payload": {"type": "LOG", "password": "` + canary + `", "` + canary + `": 1}, "scheduled_at": "2100-01-01T00:00:00Z"}`
	for _, key := range []string{"all", canary, "all " + canary} {
		for _, call := range [][3]string{
			{"PUT", "/v1/tasks/a", secret}, {"PUT", "/v1/tasks/a", secret[:len(secret)-1]}, {"PUT", "/v1/tasks/%00", secret},
			{"POST", "/v1/tasks", strings.Replace(secret, "LOG", canary+" ", 1)}, {"POST", "/v1/tasks/bulk", `{"tasks": [` + secret + `]}`},
			{"PATCH", "/v1/tasks/a", `{"payload": {"type": 1, "a": "` + canary + `"}}`},
			{"PATCH", "/v1/tasks/a", `{"` + canary + `": "` + canary + `"}`},
			{"PATCH", "/v1/tasks/a", `{"payload": {"a": "\u0000` + canary + `"}}`},
			{"GET", "/v1/tasks?message=" + canary, ""}, {"GET", "/v1/tasks?" + canary + "=1", ""},
			{"GET", "/v1/tasks/a?wait=" + canary, ""}, {"GET", "/v1/tasks/a/why", ""}, {"GET", "/v1/tasks/a/changes", ""},
			{"POST", "/v1/queues/mail/pause", `{"reason": "` + canary + `"}`},
			{"POST", "/v1/dead-letters/archive", `{"filter": {}, "note": "` + canary + `"}`},
		} {
			s.call(key, call[0], call[1], call[2], "Idempotency-Key", canary+url.PathEscape(call[0]+call[1]), "Cookie", canary,
				"X-Request-Id", "not plain "+canary, "If-Match", `"`+canary+`"`, "User-Agent", canary, "Referer", "https://"+canary)
			s.call(key, call[0], call[1], call[2])
		}
	}
	// Failures of the database, whose errors have values of rows.
	s.exec(`ALTER TABLE tasktable.scheduled_tasks ADD CHECK (payload->>'password' IS NULL) NOT VALID`)
	s.call("all", "PUT", "/v1/tasks/b", secret)
	s.exec(`CREATE UNIQUE INDEX ON tasktable.scheduled_tasks ((payload->>'unique'))`)
	for _, id := range []string{"c", "d"} {
		s.call("all", "PUT", "/v1/tasks/"+id, `{"payload": {"type": "LOG", "unique": "`+canary+`"}}`)
	}
	s.exec(`CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'broken' USING ERRCODE = 'XX000', DETAIL = NEW.payload::text; END $$`)
	s.exec(`CREATE TRIGGER broken BEFORE INSERT ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION broken()`)
	s.wants(500, "all", "PUT", "/v1/tasks/e", strings.Replace(secret, "password", "word", 1))
	if !strings.Contains(s.log.String(), "ERROR: broken (SQLSTATE XX000)") {
		t.Errorf("the log does not say why a call failed: %s", s.log)
	}
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, canary) {
			t.Errorf("the log has the secret: %s", line)
		}
	}
}

// Each call is one line.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, c := range []struct{ caller, method, path, body, line string }{
		{"all", "PUT", "/v1/tasks/a%2Fb?", hello, `level=INFO msg=call request=ID method=PUT path=/v1/tasks/a%2Fb status=201 caller=all took=T bytes=N`},
		{"reader", "GET", "/v1/tasks?type=LOG", "", `level=INFO msg=call request=ID method=GET path=/v1/tasks status=200 caller=reader took=T bytes=N`},
		{"reader", "DELETE", "/v1/tasks/a", "", `level=INFO msg=call request=ID method=DELETE path=/v1/tasks/a status=403 caller=reader took=T bytes=N`},
		{"", "GET", "/v1/tasks", "", `level=INFO msg=call request=ID method=GET path=/v1/tasks status=401 caller="" took=T bytes=N`},
		{"all", "GET", "/none", "", `level=INFO msg=call request=ID method=GET path=/none status=404 caller="" took=T bytes=N`},
		{"all", "PUT", "/v1/tasks/a", padded(api.MaxBodyBytes + 1), `level=INFO msg=call request=ID method=PUT path=/v1/tasks/a status=413 caller=all took=T bytes=N`},
	} {
		before := len(s.log.String())
		got := s.call(c.caller, c.method, c.path, c.body)
		// The line is written after the answer.
		until(t, "the call is in the log", func() bool { return strings.HasSuffix(s.log.String()[before:], "\n") })
		line := strings.TrimSpace(s.log.String()[before:])
		line = strings.ReplaceAll(line, got.header.Get("X-Request-Id"), "ID")
		line = regexp.MustCompile(`took=[0-9.µms]+ `).ReplaceAllString(line, "took=T ")
		line = regexp.MustCompile(`bytes=[1-9][0-9]*$`).ReplaceAllString(line, "bytes=N")
		if _, line, _ = strings.Cut(line, " "); line != c.line {
			t.Errorf("got  %s\nwant %s", line, c.line)
		}
	}
}

// The log names a key that was revoked and is still used, so that somebody can tell its user.
func TestTheLogNamesARevokedKey(t *testing.T) {
	t.Parallel()
	s, secrets := newServiceWithRoles(t, keys.NewKey{Name: "old"})
	if _, err := keys.New(keys.Config{}).Revoke(t.Context(), s.pool, "old", ""); err != nil {
		t.Fatal(err)
	}
	for key, line := range map[string]string{
		secrets["old"]: `status=401 caller=old `, "tt_" + strings.Repeat("A", 43): `status=401 caller="" `,
	} {
		before := len(s.log.String())
		s.wants(401, key, "GET", "/v1/tasks", "")
		until(t, "the call is in the log", func() bool { return strings.HasSuffix(s.log.String()[before:], "\n") })
		if text := s.log.String()[before:]; !strings.Contains(text, line) {
			t.Errorf("%s, want %s", text, line)
		}
	}
}
