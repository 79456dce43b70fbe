// Package torture contains only a test. It runs the engine under faults, and then checks whether the engine kept its
// promises.
//
// The nodes are processes of two services. The writers act as an application. Each process has its own network
// connection to a private Postgres. While the writers work, the test kills, freezes and quiets nodes. It cuts,
// silences and slows down connections, terminates backends, holds an old snapshot, and stops and restarts Postgres
// itself. Afterwards it ends all faults, and the remaining tasks must end in time.
//
// Some writers work over HTTP. The API is a process of its own. The test kills and freezes it, too, and loses its
// answers. Such a writer sends each call with an Idempotency-Key until it has an answer. A client follows the events
// of the API meanwhile (follower_test.go). Some tasks are HTTP requests. Each way in which their receivers misbehave
// has a receiver of its own, so that some circuits open and others do not.
//
// The test does not rely on the engine's own records. The writers keep a log (oplog_test.go). Triggers of the test
// record each change of each row with its content (audit_test.go). The handlers write their payloads, their starts
// and ends, and their requests to the engine into files that outlive a kill (journal_test.go). Their transactional
// effects go to a table without a key. The receivers keep a record of their requests (receiver_test.go). For each
// promise a check reads this evidence (check_*_test.go). Two kinds of tests test the checks: histories that the checks
// must refuse (oracle_*_test.go), and engines that are broken on purpose (mutants_*_test.go). A check reports how many
// samples it judged. A sample is a case in which the promise applied and no fault excused the engine. In an ordinary
// run of a minute or more, a check that judged no sample fails.
//
//	make torture SECONDS=300    # a long run; SEED=7 for the same decisions again
//	make mutants                # the checks must notice each known way to break the engine
//
// The test does not cover machines that lose written data, replicas, or poolers. An ordinary run does not cover nodes
// with wrong clocks, but make mutants has a build with wrong clocks. Some writers always have clocks that are an hour
// off.
package torture
