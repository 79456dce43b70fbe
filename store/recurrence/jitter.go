package recurrence

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Jitter is how long after its fire time an occurrence should wait, so that tasks with the same fire time do not all start at
// once: at least 0 and less than most, in whole microseconds, as the database keeps them; 0 if most is less than one. It is a
// hash of the id and the fire time (to the microsecond, in whatever zone), the same on every machine and in every release.
func Jitter(id string, fire time.Time, most time.Duration) time.Duration {
	if most < time.Microsecond {
		return 0
	}
	hashed := binary.BigEndian.AppendUint64(nil, uint64(fire.UnixMicro()))
	sum := sha256.Sum256(append(hashed, id...))
	share := binary.BigEndian.Uint64(sum[:8]) % uint64(most)
	return time.Duration(share).Truncate(time.Microsecond)
}
