package prove

import (
	"context"
	"fmt"
)

// Result is the result of a proof.
type Result struct {
	Database string    `json:"database"`
	Kept     bool      `json:"kept"`
	Verdicts []Verdict `json:"verdicts"`
	Kills    Kills     `json:"kills"`
	Delays   Delays    `json:"delays"`
}

// Kills describes the kills, and how soon their tasks ran again.
type Kills struct {
	Nodes     int     `json:"nodes"`
	Leaders   int     `json:"leaders"` // how many of them led
	CutOff    int     `json:"cut_off"` // handlers that were called and had not returned
	TakenBack int     `json:"taken_back"`
	P99       float64 `json:"recovery_p99_s"` // from the kill until a task that was taken back began again
	Max       float64 `json:"recovery_max_s"`
}

// Delays are the times from when an attempt was due until its start, in milliseconds. An attempt after a kill is due
// when the leader takes its task back.
type Delays struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

const killsSQL = `
SELECT count(*), count(*) FILTER (WHERE led),
    (SELECT count(*) FROM proof.runs AS r JOIN proof.kills AS k ON k.process = r.process WHERE r.ended_at IS NULL),
    (SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST')
FROM proof.kills`

const recoverySQL = `
SELECT coalesce(percentile_disc(0.99) WITHIN GROUP (ORDER BY seconds), 0)::float8, coalesce(max(seconds), 0)::float8
FROM (SELECT extract(epoch FROM min(again.began_at) - k.killed_at) AS seconds
    FROM proof.kills AS k JOIN proof.runs AS r ON r.process = k.process
    JOIN tasktable.scheduled_task_executions AS e ON e.fence = r.fence AND e.outcome = 'LOST'
    JOIN proof.runs AS again ON again.task_id = r.task_id AND again.fence > r.fence
    GROUP BY k.process, k.killed_at, r.number) AS recoveries`

const delaysSQL = `
SELECT coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), 0)::float8,
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY ms), 0)::float8, coalesce(max(ms), 0)::float8
FROM (SELECT extract(epoch FROM started_at - due_at) * 1000 AS ms
    FROM tasktable.scheduled_task_executions WHERE started_at IS NOT NULL) AS starts`

// verify computes the result from the tables, after all tasks have ended.
func verify(ctx context.Context, db querier) (result Result, err error) {
	for _, p := range promises {
		v, err := p.ask(ctx, db)
		if err != nil {
			return result, err
		}
		result.Verdicts = append(result.Verdicts, v)
	}
	k, d := &result.Kills, &result.Delays
	if err := db.QueryRow(ctx, killsSQL).Scan(&k.Nodes, &k.Leaders, &k.CutOff, &k.TakenBack); err != nil {
		return result, fmt.Errorf("count the kills: %w", err)
	}
	if err := db.QueryRow(ctx, recoverySQL).Scan(&k.P99, &k.Max); err != nil {
		return result, fmt.Errorf("measure the recoveries: %w", err)
	}
	if err := db.QueryRow(ctx, delaysSQL).Scan(&d.P50, &d.P99, &d.Max); err != nil {
		return result, fmt.Errorf("measure the delays: %w", err)
	}
	return result, nil
}
