package dashboard_test

import (
	"net/http"
	"testing"

	"github.com/tasktable/tasktable/scheduled/dashboard"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.All&^dashboard.Admin, ""))
	b.get("/defaults").wants(t, http.StatusOK, "No type has defaults.")
	b.post("/defaults/set", "type", " MAIL/ALL ", "max_attempts", "3", "backoff", "1m", "queue", "mail").
		wants(t, http.StatusOK, "Defaults of type MAIL/ALL: created.", "queue mail, max_attempts 3, backoff 1m", "ann")
	b.get("/defaults?type=MAIL%2FALL").wants(t, http.StatusOK, `name="max_attempts" value="3"`, `name="backoff" value="1m"`,
		`name="priority" value=""`, `name="type" value="MAIL/ALL"`)
	b.post("/defaults/set", "type", "MAIL/ALL", "priority", "-5").
		wants(t, http.StatusOK, "Defaults of type MAIL/ALL: changed.", "priority -5").lacks(t, "max_attempts 3")
	b.post("/defaults/set", "type", "*", "expiration", "24h").wants(t, http.StatusOK, "Defaults of type *: created.")
	b.refuses("/defaults/set", map[string][]string{
		"It must be 2 to 127 letters":       {"type", markup, "priority", "1"},
		"Defaults must have a field.":       {"type", "MAIL"},
		"It must be between 1 and 1000.":    {"type", "MAIL", "max_attempts", "0"},
		"It must be a whole number.":        {"type", "MAIL", "priority", "high"},
		"It must be between 1µs and 7 days": {"type", "MAIL", "timeout", "8d"},
	}, "Nothing was set.")
	b.get("/defaults").wants(t, http.StatusOK).lacks(t, "<th scope=\"row\" class=\"id whole\">MAIL</th>")
	b.post("/defaults/remove", "type", "MAIL/ALL").wants(t, http.StatusOK, "Defaults of type MAIL/ALL: deleted.")
	b.post("/defaults/remove", "type", "MAIL/ALL").wants(t, http.StatusOK, "Defaults of type MAIL/ALL: absent.")
	b.post("/defaults/remove", "type", "\x00").wants(t, http.StatusUnprocessableEntity, "Type must be UTF-8 without NUL.")
}
