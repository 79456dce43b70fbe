package scheduled

import (
	"sync"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// zoneValid is how long a time zone that was loaded counts. The machine's zone data may be replaced while the node runs.
const zoneValid = time.Minute

// zones loads time zones, and keeps each for a minute: a fork would otherwise read the zone's file for each task. It is safe
// for concurrent use. Nil is the zones of the machine.
type zones struct {
	load  recurrence.Zones
	mu    sync.Mutex
	known map[string]loadedZone
}

type loadedZone struct {
	location    *time.Location
	fingerprint string
	at          time.Time
}

var machineZones = newZones(time.LoadLocation)

func newZones(load recurrence.Zones) *zones {
	return &zones{load: load, known: map[string]loadedZone{}}
}

// location is the zone of that name. It has the form of recurrence.Zones.
func (z *zones) location(name string) (*time.Location, error) {
	zone, err := z.get(name)
	return zone.location, err
}

// fingerprint tells the data of the zone from other data of it; "" is unknown.
func (z *zones) fingerprint(name string) string {
	zone, err := z.get(name)
	if err != nil {
		return ""
	}
	return zone.fingerprint
}

func (z *zones) get(name string) (loadedZone, error) {
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
