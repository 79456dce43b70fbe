package term

import (
	"time"

	"github.com/tasktable/tasktable/store/when"
)

// Moment is a time as a person writes it. It may be absolute, in the zone of --time-zone, or relative to now. The zone
// and the time are known only when the command runs.
type Moment string

// MomentHelp describes a moment in the help of a command.
const MomentHelp = "A TIME is " + when.Help + ` Your zone is that of --time-zone, and now is that of the database.`

// At returns the instant that the moment means, or the zero time for an empty moment.
func (m Moment) At(c Clock) (time.Time, error) { return when.Time(string(m), c.Now, c.Zone) }
