package pg

// PlanSettingsSQL makes the engine's statements use indexes even if the statistics are stale. Without enable_sort = off
// Postgres may read all tasks of a lane and sort them, although an index has them in that order. These settings do not
// decide how Postgres 18 answers an EXISTS. It may read the whole table into a hash. OFFSET 0 in the subquery of a
// hot statement prevents that. Postgres plans a statement once for each connection. Otherwise it would plan most
// statements of the engine anew each time, because they take arrays, and planning takes longer than running them.
const PlanSettingsSQL = `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; ` +
	`SET enable_sort = off; SET jit = off; SET plan_cache_mode = force_generic_plan`
