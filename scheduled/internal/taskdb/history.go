package taskdb

// recordedSQL is a part of each statement that ends a claim, or fails or expires a task that no claim has. It writes a
// line of the history for each row of the part before it, which is named ended. The engine writes to that table nowhere
// else, so a trigger of the table sees the end of each claim.
const recordedSQL = `recorded AS (
    INSERT INTO tasktable.scheduled_task_executions (` + lineColumns + `)
    SELECT ` + lineColumns + ` FROM ended
)`

const lineColumns = `fence, task_id, type, revision, attempt, scheduled_at, due_at, started_at, finished_at, outcome,
        error, node`
