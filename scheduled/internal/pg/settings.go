package pg

// PlanSettingsSQL makes the engine's statements use indexes even if the statistics are stale. These settings do not
// decide how Postgres 18 answers an EXISTS. It may read the whole table into a hash. OFFSET 0 in the subquery of a
// hot statement prevents that.
const PlanSettingsSQL = `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off`
