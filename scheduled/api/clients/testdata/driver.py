"""Uses every endpoint by the generated client, as a program of a user would. It fails at the first wrong answer, and
prints the tasks that it sees at the end."""

import importlib
import json
import os
import types
from datetime import datetime, timezone

import tasktable_client
from tasktable_client.api.dead_letters_api import DeadLettersApi
from tasktable_client.api.operations_api import OperationsApi
from tasktable_client.api.recurring_api import RecurringApi
from tasktable_client.api.tasks_api import TasksApi
from tasktable_client.model.archive_dead_letters_request import ArchiveDeadLettersRequest
from tasktable_client.model.bulk_request import BulkRequest
from tasktable_client.model.defaults_request import DefaultsRequest
from tasktable_client.model.limit_request import LimitRequest
from tasktable_client.model.pause_queue_request import PauseQueueRequest
from tasktable_client.model.payload import Payload
from tasktable_client.model.problem import Problem
from tasktable_client.model.retry_dead_letters_request import RetryDeadLettersRequest
from tasktable_client.model.task_filter import TaskFilter
from tasktable_client.model.task_patch import TaskPatch
from tasktable_client.model.task_request import TaskRequest

FUTURE = datetime(2100, 1, 1, 9, tzinfo=timezone.utc)


def client(key, unchecked=""):
    configuration = tasktable_client.Configuration(
        host=os.environ["TASKTABLE_URL"], disabled_client_side_validations=unchecked)
    configuration.access_token = key
    return tasktable_client.ApiClient(configuration)


api = client(os.environ["KEY"])
tasks, dead_letters, operations = TasksApi(api), DeadLettersApi(api), OperationsApi(api)


def same(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def answer(call, *args, **kwargs):
    """Returns the status, the body and the headers."""
    body, status, headers = call(*args, _return_http_data_only=False, **kwargs)
    return status, body, headers


def outcome(call, *args, **kwargs):
    return call(*args, **kwargs).outcome


def refused(status, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except tasktable_client.ApiException as error:
        same(error.status, status)
        problem = api.deserialize(types.SimpleNamespace(data=error.body), (Problem,), True)
        same(problem.status, status)
        return problem
    raise AssertionError(f"no error, want {status}")


def edits():
    task_id = "order/42 ü?"
    request = TaskRequest(
        payload=Payload(type="JOB", note="hi", items=[{"id": 1}, None]), scheduled_at=FUTURE, priority=7,
        entity="order:42")
    status, receipt, _ = answer(tasks.put_task, task_id, request)
    same((status, receipt.outcome, receipt.next_attempt_at), (201, "created", FUTURE))
    status, receipt, headers = answer(tasks.put_task, task_id, request)
    same((status, receipt.outcome), (200, "unchanged"))
    same(headers["ETag"], f'"{receipt.revision}"')
    read = tasks.get_task(task_id)
    same((read.payload.note, read.payload.items, read.priority, read.entity, read.status, read.scheduled_at),
         ("hi", [{"id": 1}, None], 7, "order:42", "QUEUED", FUTURE))

    patch = TaskPatch(priority=9, overlap=None)
    same(outcome(tasks.patch_task, task_id, patch, if_match=headers["ETag"]), "rescheduled")
    stale = refused(412, tasks.patch_task, task_id, patch, if_match=headers["ETag"])
    assert "somebody has edited it" in stale.detail, stale.detail
    refused(412, tasks.put_task, task_id, request, if_none_match="*")

    changes = tasks.list_changes(task_id).changes
    same([change.outcome for change in changes], ["created", "rescheduled"])
    why = tasks.why_task(task_id)
    assert "2100" in why.sentence and why.story, why


def problems():
    none = refused(404, tasks.get_task, "none")
    same((none.detail, none.code), ("no such task", "no_such_task"))
    wrong = TaskRequest(payload=Payload(type="JOB"))
    try:
        wrong.priority = 1000
        raise AssertionError("the client takes a priority of 1000")
    except tasktable_client.ApiValueError:
        pass
    unchecked = client(os.environ["KEY"], "maximum")
    wrong = TaskRequest(payload=Payload(type="JOB"), priority=1000, _configuration=unchecked.configuration)
    problem = refused(422, TasksApi(unchecked).put_task, "wrong", wrong)
    same([one.location for one in problem.errors], ["body.priority"])
    refused(401, TasksApi(client("nobody")).list_tasks)


def repeats():
    def create(note):
        request = TaskRequest(payload=Payload(type="JOB", note=note), scheduled_at=FUTURE, entity="repeated")
        return tasks.create_task(request, idempotency_key="key-1")

    same(create("one"), create("one"))
    same(refused(409, create, "another").code, "idempotency_key_reused")


def lists():
    wanted = [TaskRequest(id=task_id, payload=Payload(type="JOB"), scheduled_at=FUTURE, entity="bulk")
              for task_id in ("bulk-1", "bulk-2", "bulk-3")]
    receipts = tasks.schedule_tasks(BulkRequest(tasks=wanted)).receipts
    same([(one.id, one.outcome) for one in receipts], [(one.id, "created") for one in wanted])
    same(outcome(tasks.pause_task, "bulk-1"), "paused")
    same(outcome(tasks.cancel_task, "bulk-2"), "cancelled")
    pages, cursor = [], {}
    while len(pages) < 5:
        page = tasks.list_tasks(
            entity="bulk", status=["QUEUED", "PAUSED"], order="id", limit=1, **cursor)
        pages.append([f"{task.id} {task.status}" for task in page.tasks])
        if not hasattr(page, "next_cursor"):
            break
        cursor = {"cursor": page.next_cursor}
    same(pages, [["bulk-1 PAUSED"], ["bulk-3 QUEUED"]])
    same(outcome(tasks.resume_task, "bulk-1"), "queued")
    same(outcome(tasks.patch_task, "bulk-1", TaskPatch(status="PAUSED")), "paused")
    same(outcome(tasks.patch_task, "bulk-1", TaskPatch(status="QUEUED")), "queued")
    for verb in ("cancel_tasks", "pause_tasks", "resume_tasks", "run_tasks_now", "retry_tasks", "archive_tasks",
                 "delete_tasks"):
        request = "".join(part.title() for part in verb.split("_")) + "Request"
        model = getattr(importlib.import_module(f"tasktable_client.model.{verb}_request"), request)
        done = getattr(tasks, verb)(model(filter=TaskFilter(entity="bulk", status=["QUEUED"]), dry_run=True))
        same((done.receipts, done.selected), ([], 2))
    same(outcome(tasks.archive_task, "bulk-1"), "unchanged")
    same(outcome(tasks.delete_task, "bulk-3"), "deleted")


def runs():
    tasks.put_task("runs", TaskRequest(payload=Payload(type="JOB", note="done")))
    task = tasks.get_task("runs", wait="30s", include="executions")
    same((task.status, task.result), ("COMPLETED", {"note": "done"}))
    same([(one.outcome, one.attempt) for one in task.executions], [("COMPLETED", 1)])
    executions = tasks.list_executions("runs").executions
    same([(one.outcome, one.attempt) for one in executions], [("COMPLETED", 1)])
    same(outcome(tasks.run_task_now, "bulk-2"), "queued")
    same(tasks.get_task("bulk-2", wait="30s").status, "COMPLETED")


def dead():
    def failed():
        task = tasks.get_task("fails", wait="30s")
        same((task.status, task.message), ("FAILED", "as the payload asks"))

    def listed():
        return [task.id for task in dead_letters.list_dead_letters(type="JOB").tasks]

    tasks.put_task("fails", TaskRequest(payload=Payload(type="JOB", fail=True)))
    failed()
    same(listed(), ["fails"])
    groups = dead_letters.group_dead_letters(type="JOB").groups
    same([(one.type, one.status, one.count) for one in groups], [("JOB", "FAILED", 1)])
    same(outcome(tasks.retry_task, "fails"), "queued")
    failed()
    retried = dead_letters.retry_dead_letters(RetryDeadLettersRequest(filter=TaskFilter(status=["FAILED"])))
    same([(one.id, one.outcome) for one in retried.receipts], [("fails", "queued")])
    failed()
    archived = dead_letters.archive_dead_letters(ArchiveDeadLettersRequest(ids=["fails"], note="seen"))
    same([one.outcome for one in archived.receipts], ["archived"])
    same(listed(), [])


def recurring():
    request = TaskRequest(
        payload=Payload(type="JOB"), cron="0 9 * * MON", time_zone="Europe/Vienna", overlap="allow")
    tasks.put_task("weekly", request)
    plain = TaskRequest(payload=Payload(type="JOB"), scheduled_at=FUTURE)
    same(refused(409, tasks.put_task, "weekly", plain).code, "kind_differs")
    same(outcome(tasks.put_task, "weekly", request, replace=True), "unchanged")
    one = RecurringApi(api).get_recurring("weekly", fires=3)
    same((one.cron, one.overlap, [fire.at.weekday() for fire in one.fires]), ("0 9 * * MON", "allow", [0, 0, 0]))
    same([task.id for task in RecurringApi(api).list_recurring(status="QUEUED").recurring], ["weekly"])


def operate():
    request = PauseQueueRequest(reason="test")
    same(outcome(operations.pause_queue, "mail", pause_queue_request=request), "paused")
    same(outcome(operations.resume_queue, "mail"), "queued")
    assert "default" in [one.queue for one in operations.list_queues().queues]
    same([node.types for node in operations.list_nodes().nodes], [["JOB"]])
    stats = operations.read_stats(type="JOB", window=3600.0)
    same([(one.type, one.completed, one.failed) for one in stats.types], [("JOB", 2, 3)])


def limit():
    request = LimitRequest(type="JOB", per="group", max_running=2)
    same([outcome(operations.set_limit, "per-customer", request) for _ in range(2)], ["created", "unchanged"])
    same([(one.name, one.per, one.max_running) for one in operations.list_limits().limits],
         [("per-customer", "group", 2)])
    same(outcome(operations.remove_limit, "per-customer"), "deleted")
    request = DefaultsRequest(max_attempts=3)
    same([outcome(operations.set_defaults, "OTHER", request) for _ in range(2)], ["created", "unchanged"])
    same([operations.get_defaults("OTHER").max_attempts], [3])
    same([one.type for one in operations.list_defaults().defaults if hasattr(one, "max_attempts")], ["OTHER"])
    same(outcome(operations.remove_defaults, "OTHER"), "deleted")


for part in (edits, problems, repeats, lists, runs, dead, recurring, operate, limit):
    part()

seen, cursor = [], {}
while True:
    page = tasks.list_tasks(order="id", limit=2, **cursor)
    seen += page.tasks
    if not hasattr(page, "next_cursor"):
        break
    cursor = {"cursor": page.next_cursor}
print(json.dumps([{
    "id": task.id, "status": task.status, "revision": task.revision, "priority": getattr(task, "priority", 0),
    "payload": task.payload.to_dict(),
} for task in seen]))
