// Package torture is a test alone: it runs the engine under faults and then asks whether the promises were kept.
//
// Nodes are processes, writers are an application's, and each has its own network to a private Postgres. While the writers
// work, nodes are killed, frozen and made quiet, connections are cut, silenced and slowed down, backends are terminated, and Postgres
// itself is stopped at once and started again. Afterwards everything is mended, and what is then still to do must end in time.
//
// Whether it went well is not asked of the engine. The writers keep a log (ledger_test.go), triggers of the test's own record
// each change of each row (audit_test.go), handlers write their starts and ends to files that outlive a kill (diary_test.go),
// and their transactional effects go to a table without a key. Each promise is a check over that evidence (check_*_test.go),
// which is itself tested on histories that it must refuse (oracle_*_test.go), and by breaking the engine on purpose
// (mutants_test.go).
//
//	make torture SECONDS=300    # a long run; SEED=7 for the same decisions again
//	make mutants                # each known way to break the engine is to be noticed
//
// What it does not cover: nodes whose own clocks are wrong, in an ordinary run (make mutants has a build whose clocks are, and
// writers whose clocks are an hour off are always there); a machine that loses what it has written; replicas and poolers.
package torture
