package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

// ifDeadTasks reads the values of --if-dead, each an object or an @FILE with one. A repeated option arrives as one text
// with commas between its values, so the end of an object is where its JSON ends.
func ifDeadTasks(given string) ([]store.Task, error) {
	var tasks []store.Task
	for rest := given; rest != ""; rest = strings.TrimPrefix(strings.TrimSpace(rest), ",") {
		if len(tasks) == store.MaxIfDead {
			return nil, options.Usage("--if-dead may be given %d times", store.MaxIfDead)
		}
		var body []byte
		if path, isFile := strings.CutPrefix(rest, "@"); isFile {
			var err error
			path, rest, _ = strings.Cut(path, ",")
			if body, err = contentOfFile("if-dead", path); err != nil {
				return nil, err
			}
		} else {
			var one json.RawMessage
			decoder := json.NewDecoder(strings.NewReader(rest))
			if err := decoder.Decode(&one); err != nil {
				return nil, options.Usage("--if-dead: task %d must be a JSON object%s", len(tasks)+1, reason(err))
			}
			body, rest = one, rest[decoder.InputOffset():]
		}
		task, err := ifDeadTask(body)
		if err != nil {
			return nil, options.Usage("--if-dead: task %d: %w", len(tasks)+1, err)
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// ifDeadTask reads a task in the form that the HTTP API takes. Its errors do not quote the payload.
func ifDeadTask(body []byte) (store.Task, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return store.Task{}, errors.New("it must be a JSON object" + reason(err))
	}
	if fields["payload"] == nil {
		return store.Task{}, errors.New("the field payload is missing")
	}
	var one api.IfDead
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&one); err != nil {
		return store.Task{}, err
	}
	return one.Task()
}
