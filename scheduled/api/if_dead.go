package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
)

// IfDead is a task that is scheduled if another task dies.
type IfDead struct {
	ID                    string     `json:"id,omitempty" minLength:"1" maxLength:"512"`
	Payload               Payload    `json:"payload"`
	ScheduledAt           *time.Time `json:"scheduled_at,omitempty"`
	Priority              int        `json:"priority,omitempty" minimum:"-100" maximum:"100"`
	Queue                 string     `json:"queue,omitempty" maxLength:"64" pattern:"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$"`
	Expiration            Seconds    `json:"expiration,omitempty" minimum:"0.000001" maximum:"315576000"`
	ExpectedExecutionTime Seconds    `json:"expected_execution_time,omitempty" minimum:"0.000001" maximum:"604800"`
	MaxAttempts           int        `json:"max_attempts,omitempty" minimum:"1" maximum:"1000"`
	Entity                string     `json:"entity,omitempty" minLength:"1" maxLength:"512"`
	IfFinished            string     `json:"if_finished,omitempty" enum:"rearm,keep"`
	Jitter                Seconds    `json:"jitter,omitempty" minimum:"0.000001" maximum:"86400"`
	Retention             Seconds    `json:"retention,omitempty" minimum:"0.000001" maximum:"3155760000"`
}

// TransformSchema adds the descriptions of the fields, which would not fit in tags.
func (IfDead) TransformSchema(_ huma.Registry, schema *huma.Schema) *huma.Schema {
	schema = described(schema, contentFields)
	return described(schema, map[string]string{
		"id":           "The task's id. Default: the id of the dead task, /dead/ and the place in the array, from 1.",
		"scheduled_at": "When the task is due. Default: at the death.",
		"entity":       "The thing that the task is about. Default: that of the dead task.",
	})
}

// Task returns the task as it is scheduled at the death. The store checks its fields.
func (d IfDead) Task() (store.Task, error) { return d.content().task(d.ID, Caller{}) }

// content is the task's content, so that what holds for a caller's task also holds for the tasks in its if_dead.
func (d IfDead) content() Content {
	return Content{
		Payload: d.Payload, ScheduledAt: d.ScheduledAt, Priority: d.Priority, Queue: d.Queue, Expiration: d.Expiration,
		ExpectedExecutionTime: d.ExpectedExecutionTime, MaxAttempts: d.MaxAttempts, Entity: d.Entity,
		IfFinished: d.IfFinished, Jitter: d.Jitter, Retention: d.Retention,
	}
}

// ifDead returns the tasks to schedule if the task dies.
func (c Content) ifDead(caller Caller) (tasks []store.Task, err error) {
	for i, one := range c.IfDead {
		task, err := one.content().task(one.ID, caller)
		if err != nil {
			return nil, inIfDead(err, i)
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

func inIfDead(err error, i int) error { return within(err, fmt.Sprintf("if_dead: task %d", i+1)) }

// ifDeadOf is the opposite of Content.ifDead.
func ifDeadOf(tasks []store.Task) []IfDead {
	var all []IfDead
	for _, task := range tasks {
		encoded, _ := json.Marshal(task.Payload) // it is JSON already
		one := IfDead{
			ID: task.ID, Payload: encoded, Priority: task.Priority, Queue: task.Queue,
			Expiration:            deref(secondsOf(&task.Expiration)),
			ExpectedExecutionTime: deref(secondsOf(&task.ExpectedExecutionTime)), MaxAttempts: task.MaxAttempts,
			Entity: task.Entity, IfFinished: string(task.IfFinished), Jitter: deref(secondsOf(&task.Jitter)),
			Retention: deref(secondsOf(&task.Retention)),
		}
		if !task.At.IsZero() {
			one.ScheduledAt = &task.At
		}
		all = append(all, one)
	}
	return all
}
