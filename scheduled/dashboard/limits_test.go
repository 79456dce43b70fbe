package dashboard_test

import (
	"net/http"
	"testing"

	"github.com/tasktable/tasktable/scheduled/dashboard"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.All&^dashboard.Admin, ""))
	b.get("/limits").wants(t, http.StatusOK, "There is no limit.")
	b.post("/limits/set", "limit", " stripe ", "kind", "queue", "name", " mail ", "rate", "100", "rate_interval", "1m",
		"burst", "20", "back", "/limits").
		wants(t, http.StatusOK, "Limit stripe: created. No node works this queue", "Queue mail any number 100 in 1m 20 – 0 –")
	b.post("/limits/set", "limit", "charges", "kind", "type", "name", "CHARGE", "max_running", "1", "back", "/limits").
		wants(t, http.StatusOK, "Limit charges: created. No node has this type", "Type CHARGE 0 of 1 any number – –")
	b.asEngine(`INSERT INTO tasktable.river_job (state, kind, args, max_attempts) VALUES ('running', 'CHARGE', '{}', 1)`)
	b.asEngine(`INSERT INTO tasktable.limit_buckets VALUES ('stripe', '2100-01-01Z')`)
	b.get("/limits").wants(t, http.StatusOK, `data-tone="busy">1 of 1`)
	b.post("/limits/set", "limit", "charges", "kind", "all", "max_running", "2", "back", "/limits").
		wants(t, http.StatusOK, "Limit charges: changed.", "Everything 1 of 2")
	b.post("/limits/set", "limit", "ledger", "kind", "type", "name", "CHARGE", "per", "tenant", "in_order", "1", "back",
		"/limits").wants(t, http.StatusOK, "Limit ledger: created.", "Type CHARGE, each tenant by itself, in order at most 0 of 1")
	b.post("/limits/set", "limit", "fair", "kind", "type", "name", "CHARGE", "per", "tenant", "weights",
		" large = 3\r\n\r\nbig=2\r\n", "back", "/limits").
		wants(t, http.StatusOK, "Limit fair: created.", "Type CHARGE, each tenant by itself, weights big=2, large=3")
	b.refuses("/limits/set", map[string][]string{
		"Name must be":                     {"limit", markup, "kind", "all", "max_running", "1"},
		"Kind must be":                     {"limit", "a", "kind", "", "max_running", "1"},
		"Max_running or rate or per must":  {"limit", "a", "kind", "all"},
		"In_order must be given":           {"limit", "a", "kind", "all", "max_running", "1", "in_order", "1"},
		"Weights must be given":            {"limit", "a", "kind", "all", "max_running", "1", "weights", "a=3"},
		"Weights must be a name, = and":    {"limit", "a", "kind", "all", "per", "tenant", "weights", "a"},
		"Max_running must be between 1":    {"limit", "a", "kind", "all", "max_running", "0"},
		"Rate must be between 1":           {"limit", "a", "kind", "all", "rate", "many"},
		"Rate_interval must be":            {"limit", "a", "kind", "all", "rate", "1", "rate_interval", "soon"},
		"Rate_interval must be between 1s": {"limit", "a", "kind", "all", "rate", "1", "rate_interval", "2d"},
	})
	b.post("/limits/remove", "limit", "stripe", "back", "/limits").wants(t, http.StatusOK, "Limit stripe is removed.")
	b.post("/limits/remove", "limit", "stripe", "back", "/limits").wants(t, http.StatusOK, "had been removed before")
}
