package api

import "github.com/danielgtaylor/huma/v2"

// TransformSchema adds the descriptions of the fields, which would not fit in tags.
func (Content) TransformSchema(_ huma.Registry, schema *huma.Schema) *huma.Schema {
	return described(schema, contentFields)
}

// TransformSchema adds the descriptions of the fields, which would not fit in tags.
func (Task) TransformSchema(_ huma.Registry, schema *huma.Schema) *huma.Schema {
	return described(described(schema, contentFields), taskFields)
}

func described(schema *huma.Schema, fields map[string]string) *huma.Schema {
	for name, field := range schema.Properties {
		if text, found := fields[name]; found {
			field.Description = text
		}
	}
	return schema
}

var contentFields = map[string]string{
	"scheduled_at": "When the task is due. Default: now; an existing task keeps its time.",
	"priority":     "Tasks with a higher priority run first. Default: 0.",
	"queue":        "Only nodes that work this queue run the task. Default: default.",
	"expiration": "Seconds after its time in which an attempt may still start. Default: for " +
		"ever.",
	"expected_execution_time": "Seconds that an attempt may take before it is given up as lost. Default: 300.",
	"max_attempts":            "After this many failed attempts the task is FAILED. Default: 10.",
	"entity":                  "The thing that the task is about, such as event:42.",
	"tenant_id":               "The tenant that the task belongs to. Default: the tenant of the key.",
	"if_running": "For a running task that is scheduled unchanged: again runs it once more after this attempt. " +
		"Default: it stays as it is.",
	"if_finished": "For a task that has ended. rearm without scheduled_at runs it again now, keep never " +
		"runs it again. Default: it runs again if the time differs.",
	"jitter": "Delays the task by up to this many seconds. The delay depends on the id and the time " +
		"alone.",
	"retention": "Seconds for which the task is kept after its end. Default: as the nodes are " +
		"configured.",
	"cron": "Makes the task recur: an expression of 5 fields, of 6 with the seconds first, @daily " +
		"and its like, or @every 90s. The task itself never runs. Each fire makes an " +
		"occurrence.",
	"time_zone":       "The IANA time zone of cron. Default: UTC.",
	"overlap":         "For a fire while an earlier occurrence has not ended. Default: skip.",
	"catch_up":        "For fires that were missed while no node was running. Default: latest.",
	"catch_up_paused": "For fires that were missed during a pause. Default: none.",
	"catch_up_limit":  "How many missed fires catch_up all runs at most. Default: 100.",
	"ends_at":         "The last instant at which cron may fire. Default: never ends.",
	"if_dead": "Tasks that are scheduled if this one becomes FAILED or EXPIRED, in the commit that makes it so. They " +
		"do not recur, and have the tenant of this one.",
	"max_occurrences": "After this many occurrences the recurrence ends. Default: no limit.",
}

var taskFields = map[string]string{
	"type":     "The type in the payload.",
	"revision": "The number of the latest edit. It is the task's ETag.",
	"asked_revision": "The revision that last asked for another payload or time, or to run again after COMPLETED. " +
		"The idempotency key of a request or of a handler is {id}:{asked_revision}.",
	"attempt":         "How many attempts of this revision have begun.",
	"message":         "The last error, or a note of the handler.",
	"result":          "The result of the handler.",
	"next_attempt_at": "When the task is due next.",
	"run_now_at":      "When it is due by run-now or retry.",
	"started_at":      "When the last recorded attempt began.",
	"finished_at":     "When the status became final.",
	"scheduled_by":    "The service that scheduled the task.",
	"parent_id":       "The recurring task that this is an occurrence of.",
	"spawned_by":      "The task whose handler asked for this one, or whose death scheduled it.",
	"executions": "Only with include=executions: the latest 20 attempts, the oldest first. Fewer if they are larger " +
		"than 4 MiB.",
}
