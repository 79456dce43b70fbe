package fireplan

import "time"

// midday is the time at which the tests of plans play, far from the real one.
var midday = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
