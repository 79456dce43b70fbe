package bench

// All lists the benches, in the order in which a reader should try them.
var All = []Bench{
	drainBench,
	preciseBench,
	herdBench,
	idleBench,
	crowdBench,
	scheduleBench,
	apiBench,
	recoverBench,
	scaleBench,
	snapshotBench,
	readsBench,
}
