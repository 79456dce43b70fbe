// Uses every endpoint by the generated client, as a program of a user would. It fails at the first wrong answer, and
// prints the tasks that it sees at the end.
import { deepStrictEqual as same, match } from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./tasktable.d.ts";

type Task = components["schemas"]["Task"];
type Problem = components["schemas"]["Problem"];
type Answer<T> = { data?: T; error?: Problem; response: Response };

const baseUrl = process.env.TASKTABLE_URL ?? "";
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${process.env.KEY}` } });

async function ok<T>(call: Promise<Answer<T>>, status = 200): Promise<T> {
  const { data, error, response } = await call;
  if (data === undefined) throw new Error(`${response.status} ${JSON.stringify(error)}`);
  same(response.status, status);
  return data;
}

async function refused(call: Promise<Answer<unknown>>, status: number): Promise<Problem> {
  const { error, response } = await call;
  same([response.status, error?.status], [status, status]);
  if (!error) throw new Error("no problem in the answer");
  return error;
}

const future = "2100-01-01T09:00:00Z";
const on = (id: string) => ({ params: { path: { id } } });
const waiting = (id: string) => ({ params: { path: { id }, query: { wait: "30s" } } });

async function edits(): Promise<void> {
  const id = "order/42 ü?";
  const body = {
    payload: { type: "JOB", note: "hi", items: [{ id: 1 }, null] },
    scheduled_at: future, priority: 7, entity: "order:42",
  };
  const put = () => client.PUT("/v1/tasks/{id}", { ...on(id), body });
  const created = await ok(put(), 201);
  same([created.outcome, Date.parse(created.next_attempt_at ?? "")], ["created", Date.parse(future)]);
  const { response, data: first } = await put();
  same([response.status, first?.outcome], [200, "unchanged"]);
  const etag = response.headers.get("ETag") ?? "";
  same(etag, `"${first?.revision}"`);
  const read: Task = await ok(client.GET("/v1/tasks/{id}", on(id)));
  same([read.payload, read.priority, read.entity, read.status], [body.payload, 7, "order:42", "QUEUED"]);
  same(Date.parse(read.scheduled_at ?? ""), Date.parse(future));

  const patch = (tag: string) => client.PATCH("/v1/tasks/{id}", {
    params: { path: { id }, header: { "If-Match": tag } }, body: { priority: 9, overlap: null },
  });
  same((await ok(patch(etag))).outcome, "rescheduled");
  const stale = await refused(patch(etag), 412);
  match(stale.detail, /somebody has edited it/);
  const taken = { params: { path: { id }, header: { "If-None-Match": "*" as const } }, body };
  await refused(client.PUT("/v1/tasks/{id}", taken), 412);

  const changes = await ok(client.GET("/v1/tasks/{id}/changes", on(id)));
  same(changes.changes.map((change) => change.outcome), ["created", "rescheduled"]);
  const why = await ok(client.GET("/v1/tasks/{id}/why", on(id)));
  match(why.sentence, /2100/);
  same(why.story.length > 0, true);
}

async function problems(): Promise<void> {
  const none = await refused(client.GET("/v1/tasks/{id}", on("none")), 404);
  same([none.detail, none.code], ["no such task", "no_such_task"]);
  const wrong = await refused(client.PUT("/v1/tasks/{id}", {
    ...on("wrong"), body: { payload: { type: "JOB" }, priority: 1000 },
  }), 422);
  same(wrong.errors?.map((one) => one.location), ["body.priority"]);
  const stranger = createClient<paths>({ baseUrl, headers: { Authorization: "Bearer nobody" } });
  await refused(stranger.GET("/v1/tasks"), 401);
}

async function repeats(): Promise<void> {
  const create = (note: string) => client.POST("/v1/tasks", {
    params: { header: { "Idempotency-Key": "key-1" } },
    body: { payload: { type: "JOB", note }, scheduled_at: future, entity: "repeated" },
  });
  const first = await ok(create("one"), 201);
  same(await ok(create("one"), 201), first);
  same((await refused(create("another"), 409)).code, "idempotency_key_reused");
}

async function lists(): Promise<void> {
  const tasks = ["bulk-1", "bulk-2", "bulk-3"].map((id) => (
    { id, payload: { type: "JOB" }, scheduled_at: future, entity: "bulk" }));
  const { receipts } = await ok(client.POST("/v1/tasks/bulk", { body: { tasks } }));
  same(receipts.map(({ id, outcome }) => [id, outcome]), tasks.map(({ id }) => [id, "created"]));
  same((await ok(client.POST("/v1/tasks/{id}/pause", on("bulk-1")))).outcome, "paused");
  same((await ok(client.POST("/v1/tasks/{id}/cancel", on("bulk-2")))).outcome, "cancelled");
  const pages: string[][] = [];
  for (let cursor: string | undefined; pages.length < 5;) {
    const page = await ok(client.GET("/v1/tasks", { params: { query: {
      entity: "bulk", status: ["QUEUED", "PAUSED"], order: "id", limit: 1, ...(cursor ? { cursor } : {}),
    } } }));
    pages.push(page.tasks.map((task) => `${task.id} ${task.status}`));
    cursor = page.next_cursor;
    if (!cursor) break;
  }
  same(pages, [["bulk-1 PAUSED"], ["bulk-3 QUEUED"]]);
  same((await ok(client.POST("/v1/tasks/{id}/resume", on("bulk-1")))).outcome, "queued");
  for (const [status, outcome] of [["PAUSED", "paused"], ["QUEUED", "queued"]] as const) {
    same((await ok(client.PATCH("/v1/tasks/{id}", { ...on("bulk-1"), body: { status } }))).outcome, outcome);
  }
  for (const verb of ["cancel", "pause", "resume", "run-now", "retry", "archive", "delete"] as const) {
    const body = { filter: { entity: "bulk", status: ["QUEUED" as const] }, dry_run: true };
    const done = await ok(client.POST(`/v1/tasks/${verb}`, { body }));
    same([done.receipts, done.selected], [[], 2]);
  }
  same((await ok(client.POST("/v1/tasks/{id}/archive", on("bulk-1")))).outcome, "unchanged");
  same((await ok(client.DELETE("/v1/tasks/{id}", on("bulk-3")))).outcome, "deleted");
}

async function runs(): Promise<void> {
  await ok(client.PUT("/v1/tasks/{id}", { ...on("runs"), body: { payload: { type: "JOB", note: "done" } } }), 201);
  const task = await ok(client.GET("/v1/tasks/{id}", {
    params: { path: { id: "runs" }, query: { wait: "30s", include: "executions" } },
  }));
  same([task.status, task.result], ["COMPLETED", { note: "done" }]);
  same(task.executions?.map((one) => [one.outcome, one.attempt]), [["COMPLETED", 1]]);
  const { executions } = await ok(client.GET("/v1/tasks/{id}/executions", on("runs")));
  same(executions.map((one) => [one.outcome, one.attempt]), [["COMPLETED", 1]]);
  same((await ok(client.POST("/v1/tasks/{id}/run-now", on("bulk-2")))).outcome, "queued");
  same((await ok(client.GET("/v1/tasks/{id}", waiting("bulk-2")))).status, "COMPLETED");
}

async function deadLetters(): Promise<void> {
  await ok(client.PUT("/v1/tasks/{id}", { ...on("fails"), body: { payload: { type: "JOB", fail: true } } }), 201);
  const failed = async () => {
    const task = await ok(client.GET("/v1/tasks/{id}", waiting("fails")));
    same([task.status, task.message], ["FAILED", "as the payload asks"]);
  };
  const dead = async () => (await ok(client.GET("/v1/dead-letters", { params: { query: { type: "JOB" } } })))
    .tasks.map((task) => task.id);
  await failed();
  same(await dead(), ["fails"]);
  const { groups } = await ok(client.GET("/v1/dead-letters/groups", { params: { query: { type: "JOB" } } }));
  same(groups.map((group) => [group.type, group.status, group.count]), [["JOB", "FAILED", 1]]);
  same((await ok(client.POST("/v1/tasks/{id}/retry", on("fails")))).outcome, "queued");
  await failed();
  const retried = await ok(client.POST("/v1/dead-letters/retry", { body: { filter: { status: ["FAILED"] } } }));
  same(retried.receipts.map((receipt) => [receipt.id, receipt.outcome]), [["fails", "queued"]]);
  await failed();
  const archived = await ok(client.POST("/v1/dead-letters/archive", { body: { ids: ["fails"], note: "seen" } }));
  same(archived.receipts.map((receipt) => receipt.outcome), ["archived"]);
  same(await dead(), []);
}

async function recurring(): Promise<void> {
  const body = { payload: { type: "JOB" }, cron: "0 9 * * MON", time_zone: "Europe/Vienna", overlap: "allow" as const };
  await ok(client.PUT("/v1/tasks/{id}", { ...on("weekly"), body }), 201);
  const plain = { payload: { type: "JOB" }, scheduled_at: future };
  same((await refused(client.PUT("/v1/tasks/{id}", { ...on("weekly"), body: plain }), 409)).code, "kind_differs");
  const replacing = { params: { path: { id: "weekly" }, query: { replace: true } }, body };
  same((await ok(client.PUT("/v1/tasks/{id}", replacing))).outcome, "unchanged");
  const one = await ok(client.GET("/v1/recurring/{id}", { params: { path: { id: "weekly" }, query: { fires: 3 } } }));
  same([one.cron, one.overlap, one.fires.map((fire) => new Date(fire.at).getUTCDay())],
    ["0 9 * * MON", "allow", [1, 1, 1]]);
  const all = await ok(client.GET("/v1/recurring", { params: { query: { status: "QUEUED" } } }));
  same(all.recurring.map((task) => task.id), ["weekly"]);
}

async function operations(): Promise<void> {
  const queue = { params: { path: { queue: "mail" } } };
  same((await ok(client.POST("/v1/queues/{queue}/pause", { ...queue, body: { reason: "test" } }))).outcome, "paused");
  same((await ok(client.POST("/v1/queues/{queue}/resume", queue))).outcome, "queued");
  const { queues } = await ok(client.GET("/v1/queues"));
  same(queues.some((one) => one.queue === "default"), true);
  const { nodes } = await ok(client.GET("/v1/nodes"));
  same(nodes.map((node) => node.types), [["JOB"]]);
  const stats = await ok(client.GET("/v1/stats", { params: { query: { type: "JOB", window: 3600 } } }));
  same(stats.types.map((type) => [type.type, type.completed, type.failed]), [["JOB", 2, 3]]);
}

async function limits(): Promise<void> {
  const limit = { params: { path: { name: "per-customer" } } };
  const body = { type: "JOB", per: "group" as const, max_running: 2 };
  for (const outcome of ["created", "unchanged"]) {
    same((await ok(client.PUT("/v1/limits/{name}", { ...limit, body }))).outcome, outcome);
  }
  const { limits: all } = await ok(client.GET("/v1/limits"));
  same(all.map((one) => [one.name, one.per, one.max_running]), [["per-customer", "group", 2]]);
  same((await ok(client.DELETE("/v1/limits/{name}", limit))).outcome, "deleted");
  const type = { params: { path: { type: "OTHER" } } };
  for (const outcome of ["created", "unchanged"]) {
    same((await ok(client.PUT("/v1/defaults/{type}", { ...type, body: { max_attempts: 3 } }))).outcome, outcome);
  }
  same((await ok(client.GET("/v1/defaults/{type}", type))).max_attempts, 3);
  const { defaults } = await ok(client.GET("/v1/defaults"));
  same(defaults.filter((one) => one.max_attempts).map((one) => one.type), ["OTHER"]);
  same((await ok(client.DELETE("/v1/defaults/{type}", type))).outcome, "deleted");
}

for (const part of [edits, problems, repeats, lists, runs, deadLetters, recurring, operations, limits]) await part();

const seen: Task[] = [];
for (let cursor: string | undefined = ""; cursor !== undefined;) {
  const query = { order: "id" as const, limit: 2, ...(cursor ? { cursor } : {}) };
  const page: components["schemas"]["TaskPage"] = await ok(client.GET("/v1/tasks", { params: { query } }));
  seen.push(...page.tasks);
  cursor = page.next_cursor;
}
console.log(JSON.stringify(seen.map(({ id, status, revision, priority, payload }) => (
  { id, status, revision, priority, payload }))));
