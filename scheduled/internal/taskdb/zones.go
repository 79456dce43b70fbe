package taskdb

import (
	"sync"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// zoneValid is how long the node uses a loaded time zone, because the machine's zone data may be replaced while the
// node runs.
const zoneValid = time.Minute

// Zones loads time zones, and keeps each for a minute. Otherwise a fork would read the zone's file for each task. It
// is safe for concurrent use. A nil *zones uses the zones of the machine.
type Zones struct {
	load  recurrence.Zones
	mu    sync.Mutex
	known map[string]loadedZone
}

type loadedZone struct {
	location    *time.Location
	fingerprint string
	at          time.Time
}

var machineZones = NewZones(time.LoadLocation)

// NewZones returns zones that are loaded by the given function.
func NewZones(load recurrence.Zones) *Zones {
	return &Zones{load: load, known: map[string]loadedZone{}}
}

// location returns the zone of this name. It has the form of recurrence.Zones.
func (z *Zones) location(name string) (*time.Location, error) {
	zone, err := z.get(name)
	return zone.location, err
}

// Fingerprint returns a text that differs when the data of the zone differ. It is "" if the zone is not known.
func (z *Zones) Fingerprint(name string) string {
	zone, err := z.get(name)
	if err != nil {
		return ""
	}
	return zone.fingerprint
}

func (z *Zones) get(name string) (loadedZone, error) {
	if z == nil {
		z = machineZones
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if zone, ok := z.known[name]; ok && time.Since(zone.at) < zoneValid {
		return zone, nil
	}
	location, err := z.load(name)
	if err != nil {
		return loadedZone{}, err
	}
	zone := loadedZone{location: location, fingerprint: recurrence.Fingerprint(location), at: time.Now()}
	z.known[name] = zone
	return zone, nil
}
