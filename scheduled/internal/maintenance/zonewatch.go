package maintenance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

const (
	zonesEvery      = 10 * time.Minute
	zonesLeadEvery  = 5 * time.Second // how often to see whether the node has become the leader
	maxVoidedAtOnce = 500             // plans in one statement, because a statement has a time limit
)

// ZoneWatch looks for time zones whose data differ from the data that fires were planned with, or from the data of
// other nodes. The zone data of a machine may be replaced at any time, and the data of two machines may differ.
type ZoneWatch struct {
	config ZoneWatchConfig

	looked time.Time
	led    bool   // whether this node led at the last look
	warned string // the zones and nodes of the last warning
}

// ZoneWatchConfig is the configuration of ZoneWatch.
type ZoneWatchConfig struct {
	Pool       *pgxpool.Pool
	Turns      session.Turns // for connections of Pool; nil: no bound
	Statements taskdb.Queries
	Node       int64         // number of this node
	Leads      func() bool   // whether this node leads
	Every      time.Duration // the pause between two looks; 0: 10 min
	Log        *slog.Logger
}

// NewZoneWatch makes a watch. It looks at nothing before Run.
func NewZoneWatch(config ZoneWatchConfig) *ZoneWatch {
	config.Every = cmp.Or(config.Every, zonesEvery)
	return &ZoneWatch{config: config}
}

// Run works until ctx is done.
func (z *ZoneWatch) Run(ctx context.Context) {
	pause := min(z.config.Every, zonesLeadEvery)
	loop.Repeat(ctx, 0, func() time.Duration {
		if leads := z.config.Leads(); time.Since(z.looked) >= z.config.Every || leads && !z.led {
			z.looked, z.led = time.Now(), leads
			if err := z.look(ctx); err != nil && ctx.Err() == nil {
				z.looked = z.looked.Add(pause - z.config.Every) // the next look comes after pause
				z.config.Log.Warn("time zone data not compared; trying again", "error", err, "in", pause)
			}
		}
		z.led = z.led && z.config.Leads()
		return pause
	})
}

const zonesInUseSQL = `
SELECT DISTINCT t.time_zone::text FROM tasktable.scheduled_tasks AS t
WHERE t.cron IS NOT NULL AND t.next_attempt_at IS NOT NULL AND t.time_zone IS NOT NULL`

// look compares the zones in use with the data of other nodes. If this node leads, look also compares them with the
// data that fires were planned with.
func (z *ZoneWatch) look(ctx context.Context) error {
	leave, err := z.config.Turns.Take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	names, err := pg.CollectColumn[string](
		ctx, z.config.Pool, "list time zones", z.config.Statements.Schema.SQL(zonesInUseSQL),
	)
	if err != nil {
		return err
	}
	fingerprints := map[string]string{}
	for _, name := range names {
		if fingerprint := z.config.Statements.Zones.Fingerprint(name); fingerprint != "" {
			fingerprints[name] = fingerprint
		}
	}
	if z.config.Leads() {
		if err := z.voidPlans(ctx, fingerprints); err != nil {
			return err
		}
	}
	return z.compare(ctx, fingerprints)
}

// voidPlansSQL makes such tasks due. The leader forks each at once, finds that its plan has other zone data, and
// plans the fire anew. No node has the empty fingerprint. Therefore no other leader takes the time of this update for
// a fire.
const voidPlansSQL = `
UPDATE tasktable.scheduled_tasks AS t SET next_attempt_at = clock_timestamp(), planned_zone_data = ''
FROM (
    SELECT p.id::text AS id FROM tasktable.scheduled_tasks AS p
    JOIN unnest($1::text[], $2::text[]) AS zone (name, data) ON zone.name = p.time_zone::text
    WHERE p.cron IS NOT NULL AND p.next_attempt_at > clock_timestamp() AND p.planned_revision = p.revision
        AND p.planned_zone_data NOT IN (zone.data, '')
    LIMIT $3::int FOR UPDATE OF p SKIP LOCKED
) AS old
WHERE t.id = old.id`

func (z *ZoneWatch) voidPlans(ctx context.Context, fingerprints map[string]string) error {
	var names, data []string
	for name, fingerprint := range fingerprints {
		names, data = append(names, name), append(data, fingerprint)
	}
	total := 0
	for {
		done, err := z.config.Pool.Exec(ctx, z.config.Statements.Schema.SQL(voidPlansSQL), names, data, maxVoidedAtOnce)
		if err != nil {
			return fmt.Errorf("plan fires anew: %w", err)
		}
		voided := int(done.RowsAffected())
		if total += voided; voided < maxVoidedAtOnce {
			break
		}
	}
	if total > 0 {
		z.config.Log.Info("time zone data have changed since fires were planned; planning anew", "tasks", total)
	}
	return nil
}

const publishZonesSQL = `
UPDATE tasktable.nodes SET zone_data = $2::text::jsonb WHERE number = $1 AND zone_data IS DISTINCT FROM $2::text::jsonb`

const otherZonesSQL = `
SELECT zone.key AS zone, n.number FROM tasktable.nodes AS n CROSS JOIN LATERAL jsonb_each_text(n.zone_data) AS zone
WHERE n.dead_at IS NULL AND jsonb_typeof(n.zone_data) = 'object' AND zone.value <> $1::text::jsonb ->> zone.key
ORDER BY zone.key COLLATE "C", n.number`

type otherZone struct {
	Zone   string
	Number int64
}

// compare writes this node's zone data for other nodes, and warns if the data of other nodes differ.
func (z *ZoneWatch) compare(ctx context.Context, fingerprints map[string]string) error {
	encoded, err := json.Marshal(fingerprints)
	if err != nil {
		return fmt.Errorf("encode fingerprints of time zones: %w", err)
	}
	if _, err := z.config.Pool.Exec(
		ctx, z.config.Statements.Schema.SQL(publishZonesSQL), z.config.Node, string(encoded),
	); err != nil {
		return fmt.Errorf("publish fingerprints of time zones: %w", err)
	}
	others, err := pg.CollectRows[otherZone](ctx, z.config.Pool, "read time zones of other nodes",
		z.config.Statements.Schema.SQL(otherZonesSQL), string(encoded))
	if err != nil {
		return err
	}
	var zones []string
	var nodes []int64
	for _, other := range others {
		zones, nodes = append(zones, other.Zone), append(nodes, other.Number)
	}
	slices.Sort(nodes)
	zones, nodes = slices.Compact(zones), slices.Compact(nodes)
	differ := fmt.Sprint(zones, nodes)
	if len(others) > 0 && differ != z.warned {
		const most = 5
		z.config.Log.Warn("nodes have different data of time zones, so that fires depend on which node leads; "+
			"update the zone data of all nodes",
			"time_zones", strings.Join(zones[:min(most, len(zones))], ", "), "of", len(zones), "other_nodes", nodes)
	}
	z.warned = differ
	return nil
}
