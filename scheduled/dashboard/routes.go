package dashboard

import (
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// pages are all pages.
var pages = []page{
	{path: "/{$}", template: "overview", title: "Overview", global: true, read: overviewPage},
	{path: "/tasks", template: "tasks", title: "Tasks", read: tasksPage},
	{path: "/schedule", template: "tasks-new", title: "Schedule a task", needs: Schedule, read: newTaskPage},
	{path: "/tasks/{id}", template: "task", title: "Task", read: taskPage},
	{path: "/tasks/{id}/edit", template: "task-edit", title: "Edit", needs: Schedule, read: taskEditPage},
	{path: "/dead", template: "dead", title: "Dead letters", read: deadPage},
	{path: "/recurring", template: "recurring", title: "Recurring tasks", read: recurringPage},
	{path: "/recurring/calendar", template: "recurring-calendar", title: "Coming fires", read: calendarPage},
	{path: "/recurring/{id}", template: "recurring-task", title: "Recurring task", read: recurringTaskPage},
	{path: "/recurring/{id}/task", template: "recurring-task", title: "Recurring task", read: recurringTaskPage},
	{path: "/recurring/{id}/edit", template: "recurring-edit", title: "Edit", needs: Schedule, read: recurringEditPage},
	{path: "/calendars", template: "calendars", title: "Calendars", read: calendarsPage},
	{path: "/queues", template: "queues", title: "Queues", global: true, read: queuesPage},
	{path: "/queues/{name}", template: "queue", title: "Queue", global: true, read: queuePage},
	{path: "/limits", template: "limits", title: "Limits", global: true, read: limitsPage},
	{path: "/defaults", template: "defaults", title: "Defaults", global: true, read: defaultsPage},
	{path: "/nodes", template: "nodes", title: "Nodes", global: true, read: nodesPage},
	{path: "/changes", template: "changes", title: "Changes", global: true, read: changesPage},
	{path: "/keys", template: "keys", title: "Keys", needs: Admin, global: true, read: keysPage},
	{path: "/keys/new", template: "keys-new", title: "New key", needs: Admin, global: true, read: newKeyPage},
	{path: "/notices", template: "notices", title: "Notices", needs: Admin, global: true, read: noticesPage},
	{path: "/notices/rule", template: "notices-rule", title: "Rule", needs: Admin, global: true, read: rulePage},
	{path: "/notices/recipient", template: "notices-recipient", title: "Recipient", needs: Admin, global: true,
		read: recipientPage},
}

// acts returns all acts.
func acts() []act {
	all := []act{
		{path: "/tasks/act", needs: Schedule, do: actOnTasks},
		{path: "/schedule", needs: Schedule, do: scheduleTask},
		{path: "/tasks/{id}/edit", needs: Schedule, do: saveEdit},
		{path: "/tasks/{id}/" + move, needs: Schedule, do: moveTask},
		{path: "/recurring/{id}/edit", needs: Schedule, do: editRecurring},
		// A tenant may not create occurrences of other times than now.
		{path: "/recurring/{id}/backfill", needs: Schedule | Operate, global: true, many: true, do: backfill},
		{path: "/calendars/add", needs: Operate, do: changeDays((*store.Store).AddDays)},
		{path: "/calendars/remove-days", needs: Operate, do: changeDays((*store.Store).RemoveDays)},
		{path: "/calendars/remove", needs: Operate, do: removeCalendar},
		{path: "/queues/pause", needs: Operate, global: true, do: pauseScope},
		{path: "/queues/resume", needs: Operate, global: true, do: resumeScope},
		{path: "/limits/set", needs: Operate, global: true, do: setLimit},
		{path: "/limits/remove", needs: Operate, global: true, do: removeLimit},
		{path: "/defaults/set", needs: Operate, global: true, do: setDefaults},
		{path: "/defaults/remove", needs: Operate, global: true, do: removeDefaults},
		{path: "/keys/new", needs: Admin, global: true, do: createKey},
		{path: "/keys/revoke", needs: Admin, global: true, do: revokeKey},
		{path: "/notices/rule", needs: Admin, global: true, do: setRule},
		{path: "/notices/rule/enable", needs: Admin, global: true, do: enableRule},
		{path: "/notices/rule/remove", needs: Admin, global: true, do: ruleSetting.removeIt},
		{path: "/notices/recipient", needs: Admin, global: true, do: setRecipient},
		{path: "/notices/recipient/remove", needs: Admin, global: true, do: recipientSetting.removeIt},
		{path: "/notices/test", needs: Admin, global: true, do: sendTest},
	}
	for _, rule := range inspect.Verbs() {
		all = append(all, act{path: "/tasks/{id}/" + rule.Path(), needs: scopesOf(rule), do: verbAct(rule, false)})
		if rule.Dead {
			all = append(all, act{path: "/dead/" + rule.Path(), needs: Operate, many: true, do: deadAct(rule)})
		} else { // a recurring task never runs itself, so it is no dead letter
			all = append(all, act{path: "/recurring/{id}/" + rule.Path(), needs: scopesOf(rule),
				do: verbAct(rule, true)})
		}
	}
	return all
}
