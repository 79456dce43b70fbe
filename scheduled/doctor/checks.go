package doctor

import "context"

// check is a named check of a deployment.
type check struct {
	name   string
	tables bool // it needs the tables, so an unmigrated database skips it
	run    func(*examination, context.Context) error
}

const versionsCheck = "versions"

// checks are in the order in which they are made. A check that others depend on comes first.
var checks = []check{
	{"connection", false, (*examination).connection},
	{"room", false, (*examination).room},
	{versionsCheck, false, (*examination).versions},
	{"permissions", true, (*examination).permissions},
	{"pooler", false, (*examination).pooler},
	{"clock", false, (*examination).clock},
	{"settings", false, (*examination).settings},
	{"triggers", true, (*examination).triggers},
	{"indexes", true, (*examination).indexes},
	{"autovacuum", true, (*examination).autovacuum},
	{"wraparound", true, (*examination).wraparound},
	{"bloat", true, (*examination).bloat},
	{"snapshots", false, (*examination).snapshots},
	{"notifications", false, (*examination).notifications},
	{"nodes", true, (*examination).nodes},
	{"leader", true, (*examination).leader},
	{"attention", true, (*examination).attention},
	{"retention", true, (*examination).retention},
	{"recurring", true, (*examination).recurring},
	{"river", true, (*examination).river},
}

// Checks returns the names of the checks in the order in which they are made.
func Checks() []string {
	names := make([]string, len(checks))
	for i, check := range checks {
		names[i] = check.name
	}
	return names
}
