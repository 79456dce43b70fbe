package dashboard_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// poison are texts that would become a part of a page, if anything did not escape them. Each has the word poison.
var poison = []string{
	`<script>poison()</script>`, `<img src=x onerror=poison()>`, `"><poison a="1">`, `'><poison a='1'>`,
	`" poison="1" onmouseover="poison()`, `' poison='1' onfocus='poison()' autofocus='`, "`poison=${poison()}`",
	`javascript:poison()`, `JaVaScRiPt:poison()//`, `data:text/html,<poison>`, `//poison.example/x`, `/\poison.example/x`,
	`https://poison.example/`, `</title><poison>`, `</textarea><poison>`, `</option></select><poison>`, `</script><poison>`,
	`<!--<poison>`, `--><poison>`, `]]><poison>`, `<svg/onload=poison()>`, `<style>poison{}</style>`, `<base href=//poison.example>`,
	`{{poison}}`, `&lt;poison&gt;`, `&#60;poison&#62;`, `%3Cpoison%3E`, `\u003cpoison\u003e`, "\u202epoison\u2066",
	"\u2028poison\u2029<poison>", `<poison `, `＜poison＞`, `<math><mtext><poison>`, `poison" style="background:red`,
	"poison \U0001F4A3 \U0001F468\u200d\U0001F469\u200d\U0001F467",
}

// oddIDs are ids with which paths and addresses go wrong. Browsers take . and .. out of a path.
var oddIDs = []string{
	".", "..", "...", "../x", "a/b", "a//b", "/", "//", "?q=1", "#f", "%", "%2e%2e", "%2F", "a%2Fb", " ", " x ", "a+b", "a&b=c",
	"new", "act", ";", "é", "\U0001F4A3", `\`, `C:\x`, "x@2030-01-01T00:00Z", strings.Repeat("é", 256),
}

// poisonTypes are types, whose syntax leaves out quotes, spaces and parentheses.
var poisonTypes = []string{"X<poison>", "X</script><poison>", "X</title><poison>", "X<svg/onload:poison>"}

// poisonTask and poisonRecurring are the ids of two tasks for examples.
const (
	poisonTask      = `"><poison a="1">`
	poisonRecurring = `recurring "><poison a="1">`
)

// addPoison makes tasks, executions, changes, nodes, pauses, keys and notices whose texts are poison.
func (b *board) addPoison() {
	b.Helper()
	for i, id := range append(append([]string{}, poison...), oddIDs...) {
		text := poison[i%len(poison)]
		payload, _ := json.Marshal(map[string]any{
			"type": poisonTypes[i%len(poisonTypes)], "text": text, text: []any{text, map[string]string{text: text}},
		})
		by := store.New(store.Config{Service: text})
		task := store.Task{
			ID: id, Payload: store.JSON(payload), Entity: text, TenantID: text, At: time.Now().Add(time.Hour), Expiration: 24 * time.Hour,
		}
		for range 2 { // so that there is a change
			if _, err := by.Schedule(b.Context(), b.pool, task); err != nil {
				b.Fatalf("%q: %v", id, err)
			}
			task.At, task.Entity = task.At.Add(time.Minute), text+" later"
		}
		b.runPoison(i, id, text)
	}
	b.addPoisonRecurring()
	b.addPoisonSettings()
}

// runPoison gives a task a status, an end, executions and a node.
func (b *board) runPoison(i int, id, text string) {
	b.Helper()
	var node, fence int64
	if err := b.pool.QueryRow(b.Context(), `INSERT INTO tasktable.nodes (service, version, host, queues, types, dead_at)
		VALUES ($1::text, $1::text, $1::text, jsonb_build_object('default', 3, $1::text, 3), ARRAY[$1::text],
			CASE WHEN $2::boolean THEN clock_timestamp() END) RETURNING number, nextval('tasktable.task_numbers')`,
		text, i%3 == 0).Scan(&node, &fence); err != nil {
		b.Fatal(err)
	}
	for attempt, outcome := range []string{"RETRIED", []string{"FAILED", "COMPLETED", "LOST"}[i%3]} {
		b.exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at, due_at,
				started_at, finished_at, outcome, error, node)
			SELECT $1, t.id, t.type, t.revision, $2, t.scheduled_at, clock_timestamp() - interval '2 s',
				clock_timestamp() - interval '1 s', clock_timestamp(), $3, $4, $5
			FROM tasktable.scheduled_tasks AS t WHERE t.id = $6`, fence*10+int64(attempt), attempt+1, outcome,
			text+"\nat line 2 "+text, node, id)
	}
	status := []string{"QUEUED", "FAILED", "COMPLETED", "CANCELLED", "PAUSED", "EXPIRED", "EXECUTING", "FAILED"}[i%8]
	b.exec(`UPDATE tasktable.scheduled_tasks SET status = $2::text, message = $3::text, node = $4, spawned_by = $5::text,
			result = jsonb_build_object('text', $3::text, $3::text, ARRAY[$3::text]), started_at = clock_timestamp(),
			fence = CASE WHEN $2::text = 'EXECUTING' THEN $6::bigint END,
			lease_expires_at = CASE WHEN $2::text = 'EXECUTING' THEN clock_timestamp() + interval '1 hour' END,
			finished_at = CASE WHEN $2::text NOT IN ('QUEUED', 'PAUSED', 'EXECUTING') THEN clock_timestamp() END,
			next_attempt_at = CASE WHEN $2::text = 'QUEUED' THEN clock_timestamp() + interval '1 hour' END
		WHERE id = $1`, id, status, text, node, poison[(i+1)%len(poison)], fence)
	if i%8 == 7 {
		b.exec(`UPDATE tasktable.scheduled_tasks SET archived_at = clock_timestamp(), archived_note = $2 WHERE id = $1`, id, text)
	}
}

// addPoisonRecurring makes recurring tasks with occurrences.
func (b *board) addPoisonRecurring() {
	b.Helper()
	latest := time.Now().Truncate(5 * time.Minute).UTC()
	for _, text := range poison {
		id := "recurring " + text
		payload, _ := json.Marshal(map[string]string{"type": poisonTypes[0], "text": text})
		by := store.New(store.Config{Service: text})
		if _, err := by.Schedule(b.Context(), b.pool, store.Task{
			ID: id, Payload: store.JSON(payload), Entity: text, TenantID: text,
			Recurrence: &store.Recurrence{Cron: "*/5 * * * *", TimeZone: "Europe/Berlin"},
		}); err != nil {
			b.Fatal(err)
		}
		for k, status := range []string{"COMPLETED", "FAILED", "SKIPPED"} {
			at := latest.Add(time.Duration(-5*k) * time.Minute)
			b.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at, status, message, parent_id, tenant_id,
					finished_at, next_attempt_at)
				VALUES ($1, $2::text::jsonb, $3, $4, $5::text, $6, $5::text, clock_timestamp(), NULL)`,
				id+"@"+at.Format(time.RFC3339), string(payload), at, status, text, id)
		}
	}
}

// addPoisonSettings makes pauses, keys and notices.
func (b *board) addPoisonSettings() {
	b.Helper()
	all := rules.New(rules.Config{})
	if _, err := all.SetRecipient(b.Context(), b.pool, rules.Recipient{
		Name: "ops", Email: `"><poison>@'poison.example`,
	}); err != nil {
		b.Fatal(err)
	}
	for i, text := range poison {
		name := fmt.Sprintf("poison-%d", i)
		b.exec(`INSERT INTO tasktable.pauses (scope, name, paused_by, reason, ends_at)
			VALUES (CASE WHEN $1::boolean THEN 'type' ELSE 'queue' END, CASE WHEN $1::boolean THEN $2::text ELSE 'default' END, $3::text, $3::text,
				CASE WHEN $1::boolean THEN clock_timestamp() - interval '1 minute' END)`, i%2 == 0, poisonTypes[i%len(poisonTypes)], text)
		if _, _, err := keys.New(keys.Config{}).Create(b.Context(), b.pool, keys.NewKey{
			Name: name, Scopes: []keys.Scope{keys.Read}, Service: text, By: text,
		}); err != nil {
			b.Fatal(err)
		}
		rule := rules.Rule{
			Name: name, Events: rules.Events(), Recipients: []string{"ops"},
			Types: poisonTypes, Tenants: []string{text}, Entities: []string{text},
		}
		b.must(all.Set(b.Context(), b.pool, rule))
		if rule.Name += "-declared"; i < 3 {
			if err := all.Declare(b.Context(), b.pool, text, []rules.Rule{rule}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, text := range poison {
		payload, _ := json.Marshal(map[string]string{"type": "NOTICE", "rule": text, "recipient": text})
		b.schedule(store.Task{ID: "notice/" + text, Payload: store.JSON(payload)})
		b.exec(`UPDATE tasktable.scheduled_tasks SET message = $2 WHERE id = $1`, "notice/"+text, text)
	}
}
