package taskdb

import (
	"sync"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// Zones loads each time zone once. So the plans of a process do not change when somebody replaces the machine's zone
// data, until the process starts anew. It is safe for concurrent use. A nil *Zones uses the zones of the machine.
type Zones struct {
	load  recurrence.Zones
	mu    sync.Mutex
	known map[string]loadedZone
}

type loadedZone struct {
	location    *time.Location
	fingerprint string
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
	zone, _ := z.get(name)
	return zone.fingerprint
}

func (z *Zones) get(name string) (loadedZone, error) {
	if z == nil {
		z = machineZones
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if zone, ok := z.known[name]; ok {
		return zone, nil
	}
	location, err := z.load(name)
	if err != nil {
		return loadedZone{}, err
	}
	z.known[name] = loadedZone{location, recurrence.Fingerprint(location)}
	return z.known[name], nil
}
