// Package torture is a test alone: it runs the engine under faults and then asks whether the promises were kept.
//
// Nodes are processes of two services, writers are an application's, and each has its own network to a private Postgres. While
// the writers work, nodes are killed, frozen and made quiet, connections are cut, silenced and slowed down, backends are
// terminated, a session keeps an old snapshot, and Postgres itself is stopped at once and started again. Afterwards everything
// is mended, and what is then still to do must end in time.
//
// The engine is not asked whether it went well. The writers keep a log (ledger_test.go), triggers of the test's own record each
// change of each row with its content (audit_test.go), handlers write their payloads, starts and ends, and all that they ask of
// the engine, to files that outlive a kill (diary_test.go), and their transactional effects go to a table without a key. Each
// promise is a check over that evidence (check_*_test.go). The checks are tested on histories that they must refuse
// (oracle_*_test.go), and by breaking the engine on purpose (mutants_*_test.go). A check says how many samples it judged: how
// often the promise was put to the test and no fault excused the engine. In an ordinary run of a minute or more a check that
// judged none fails.
//
//	make torture SECONDS=300    # a long run; SEED=7 for the same decisions again
//	make mutants                # each known way to break the engine is to be noticed
//
// It does not cover nodes whose own clocks are wrong in an ordinary run (make mutants has a build whose clocks are, and writers
// whose clocks are an hour off are always there), nor a machine that loses what it has written, nor replicas and poolers.
package torture
