package main

// All lists the benches, in the order in which a reader should try them.
var All = []Bench{
	drainBench,
	preciseBench,
	herdBench,
	idleBench,
	crowdBench,
	rampBench,
	scheduleBench,
	recoverBench,
	scaleBench,
	snapshotBench,
	readsBench,
	limitsBench,
}
