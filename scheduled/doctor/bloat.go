package doctor

import "context"

// tableBloatSQL estimates the size that a table would have if it had just been written. It counts the rows with the
// width from the statistics, and 28 bytes each for header and pointer, on pages filled up to the fillfactor. A role
// that may not read a table does not see its statistics.
const tableBloatSQL = `
SELECT c.oid::regclass::text AS name, pg_relation_size(c.oid) AS size, pg_total_relation_size(c.oid) AS total,
    greatest(coalesce(s.n_live_tup, 0), 0) AS rows,
    (greatest(coalesce(s.n_live_tup, 0), 0) * (28 + w.width) * 100 / coalesce(
        (SELECT one.option_value::int FROM pg_options_to_table(c.reloptions) AS one
            WHERE one.option_name = 'fillfactor'), 100))::bigint AS wanted,
    w.width > 0 AS known
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
CROSS JOIN LATERAL (SELECT coalesce(sum(st.avg_width * (1 - st.null_frac)), 0)::float8 AS width
    FROM pg_stats AS st WHERE st.schemaname = n.nspname AND st.tablename = c.relname) AS w
WHERE n.nspname = $1::text AND c.relkind = 'r' ORDER BY c.relname COLLATE "C"`

type bloatRow struct {
	Name   string
	Size   int64 // of a table's rows, without indexes and TOAST
	Total  int64
	Rows   int64
	Wanted int64
	Known  bool // it has statistics
}

// indexBloatSQL does the same for btree indexes, with 16 bytes for header and pointer of each entry, on pages filled
// to nine tenths. It leaves out River's GIN indexes, because their size says little.
const indexBloatSQL = `
SELECT i.oid::regclass::text AS name, pg_relation_size(i.oid) AS size, 0::bigint AS total,
    greatest(i.reltuples, 0)::bigint AS rows,
    (greatest(i.reltuples, 0) * (16 + w.width) / 0.9)::bigint AS wanted, w.width > 0 AS known
FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_am AS m ON m.oid = i.relam
JOIN pg_class AS c ON c.oid = x.indrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (SELECT coalesce(sum(st.avg_width), 0)::float8 AS width
    FROM pg_attribute AS a JOIN pg_stats AS st ON st.schemaname = n.nspname AND st.tablename = c.relname
        AND st.attname = a.attname
    WHERE a.attrelid = c.oid AND a.attnum = ANY (x.indkey::int2[])) AS w
WHERE n.nspname = $1::text AND m.amname = 'btree' ORDER BY i.relname COLLATE "C"`

// bloatFactor is how many times its estimated size a table or index may have. It is large, because a busy table has
// some bloat, and the estimate is rough.
const bloatFactor = 4

// bloat reports unused space in tables and indexes. It slows down statements that read it, and Postgres does not give
// it back by itself.
func (e *examination) bloat(ctx context.Context) error {
	tables, err := rows[bloatRow](ctx, e, tableBloatSQL, e.schema.String())
	if err != nil {
		return err
	}
	indexes, err := rows[bloatRow](ctx, e, indexBloatSQL, e.schema.String())
	if err != nil {
		return err
	}
	bad, total := false, int64(0)
	for _, one := range tables {
		total += one.Total
		if e.bloated(one) {
			bad = true
			e.warn("VACUUM FULL "+one.Name+"; when nothing runs, since it locks the table; pg_repack does it without; "+
				"first see autovacuum and snapshots, or it grows again",
				"%s takes %s, and its %s would take about %s", one.Name, bytes(one.Size), several(one.Rows,
					"row"), bytes(one.Wanted))
		}
	}
	for _, one := range indexes {
		if e.bloated(one) {
			bad = true
			e.warn("REINDEX INDEX CONCURRENTLY "+one.Name+";",
				"index %s takes %s, and entries of %s would take about %s", one.Name, bytes(one.Size), several(one.Rows,
					"row"), bytes(one.Wanted))
		}
	}
	if !bad {
		e.ok("all tables with their indexes take %s; none is much larger than its rows need", bytes(total))
	}
	return nil
}

func (e *examination) bloated(one bloatRow) bool {
	return one.Known && one.Size > e.config.limits.bloat && one.Size > bloatFactor*one.Wanted
}
