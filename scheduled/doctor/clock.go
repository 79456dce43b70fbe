package doctor

import (
	"context"
	"time"
)

const clockSQL = `
SELECT clock_timestamp() AS now, (SELECT s.reset_val FROM pg_settings AS s WHERE s.name = 'TimeZone') AS zone`

type clockRow struct {
	Now  time.Time
	Zone string
}

// clock compares the clock of the database with that of this machine. It uses the quickest of some answers. The
// result is wrong by half of its round trip at most.
func (e *examination) clock(ctx context.Context) error {
	var offset, least time.Duration
	var zone string
	for try := range roundTrips {
		sent := time.Now()
		found, err := row[clockRow](ctx, e, clockSQL)
		if err != nil {
			return err
		}
		took := time.Since(sent)
		if try == 0 || took < least {
			// Round(0) drops the monotonic clock, because the database has a wall clock.
			offset, least = found.Now.Sub(sent.Add(took/2).Round(0)), took
		}
		zone = found.Zone
	}
	if max(offset, -offset) < e.config.limits.offset {
		e.ok("the database's clock is within %s of this machine's; its time zone is %s",
			short(e.config.limits.offset), zone)
		return nil
	}
	than := "ahead of"
	if offset < 0 {
		than = "behind"
	}
	e.info("set both by NTP",
		"the database's clock is %s %s this machine's: tasks run by the database's, so times that this machine "+
			"computes (time.Now().Add) are off by as much", short(max(offset, -offset)), than)
	return nil
}
