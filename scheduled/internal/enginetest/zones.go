package enginetest

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// ZonesOf is a time zone database in which the clocks of each zone follow one POSIX rule for ever.
func ZonesOf(posix string) *taskdb.Zones {
	return taskdb.NewZones(func(name string) (*time.Location, error) {
		var data bytes.Buffer
		for range 2 { // in 32 bits, which nobody reads, and in 64
			data.WriteString("TZif2" + string(make([]byte, 15)))
			_ = binary.Write(&data, binary.BigEndian, []uint32{0, 0, 0, 0, 1, 4})
			_ = binary.Write(&data, binary.BigEndian, int32(-5*3600))
			data.WriteString("\x00\x00CST\x00")
		}
		data.WriteString("\n" + posix + "\n")
		return time.LoadLocationFromTZData(name, data.Bytes())
	})
}

// A zone, and two POSIX rules for its clocks, of which one begins the summer in March and the other in April.
const (
	Havana          = "America/Havana"
	SummerFromMarch = "CST5CDT,M3.2.0/0,M11.1.0/1"
	SummerFromApril = "CST5CDT,M4.1.0/0,M11.1.0/1"
)
