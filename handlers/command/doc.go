// Package command is the variant EXEC: it runs a program that the node's configuration names. So the script of a cron
// line can stay a script.
//
//	commands, err := command.Variant(command.Config{Commands: map[string]command.Command{
//		"backup": {Path: "/usr/bin/pg_dump", Args: []string{"--file=/backup/shop.dump", "shop"}, Timeout: time.Hour},
//	}})
//	registry, err := handlers.NewRegistry(commands)
//
// The payload is contract.Exec, in a package of its own for services that only schedule. It names a command, and
// nothing else can be run. Those who may schedule tasks can only choose among the commands of the configuration. The
// program tasktable has no commands unless its option --commands names a file with some. README.md in this folder
// shows such a file.
//
//	SELECT tasktable.schedule('{"type": "EXEC", "command": "backup"}', id => 'backup-now');
//
// # What is run
//
// The program is started directly, never by a shell. Each argument reaches it as it is written. Its standard input is
// empty. Its environment is what Command names, and these variables:
//
//	TRACEPARENT                the span of the attempt, or on a node without a tracer that of the call that scheduled
//	                           the task, if there is one (W3C Trace Context); TRACESTATE, too
//	TASKTABLE_TASK_ID          the task's id
//	TASKTABLE_REVISION         which edit of the task this is
//	TASKTABLE_IDEMPOTENCY_KEY  the same while payload and time of the task are the same, see Execution.IdempotencyKey
//	TASKTABLE_ATTEMPT          the number of the attempt, from 1
//	TASKTABLE_DEADLINE         when the program will be ended, such as 2027-01-31T03:05:00Z
//
// # Outcomes
//
//	an exit code of Success      completes the task, with a contract.Result
//	one of Permanent             fails the task at once
//	one of RetryAfter            retried after its delay
//	any other, also 75           retried by the backoff (sysexits calls 75 EX_TEMPFAIL)
//	ended by a signal            retried by the backoff
//	the timeout                  retried by the backoff
//	the task is cancelled        the program is ended; the task stays cancelled
//	the node shuts down          the program is ended; the task is queued again, and uses up no attempt
//	it cannot be started         retried by the backoff; the error says why
//	an unknown command           permanent; the error names those that the node has
//	arguments or payload         permanent if they break a rule; the error names the field and the rule
//
// An error has the last line of stderr, and then up to 2 KiB of its end, or of stdout if stderr is empty. The message
// of a completed task is its exit code and duration.
//
// # How it ends
//
// The program leads a process group of its own. When its time is over, or its task is cancelled, the whole group gets
// SIGTERM. The program has the Grace to end, and then gets SIGKILL. Once the program has ended, by itself or by a
// signal, the handler ends the rest of its group by SIGKILL. So a child that outlives the program does not hold up the
// task, and does not go on unseen. A daemon that must go on starts a session of its own (setsid). Its later output
// is not kept.
//
// If the node itself is killed, even by SIGKILL, the Linux kernel kills the program. It does not kill the program's
// own children. Under systemd the unit's control group ends them, too. A program that changes its user by a
// set-user-ID bit is not killed. On other systems than Linux the program goes on if the node is killed. The task is run
// again when its lease has ended, so there the program must bear a second run beside the first. Windows has no process
// groups here: the program alone is ended, without a grace.
//
// # At least once
//
// A program can run twice for one task: if the node died, or lost its database, after the program had done its work.
// TASKTABLE_IDEMPOTENCY_KEY is the same then.
//
// # Nodes with different commands
//
// A node announces the type EXEC:NAME for each of its commands. A task of such a type waits for a node that has the
// command. A task of type EXEC runs on any node with the type EXEC, and fails if this node lacks the command. Then
// `tasktable why` names the running nodes that have it. If all nodes have the same commands, both are the same.
//
// # Output and secrets
//
// The handler keeps the end of the output only, and its memory is bounded. What the program prints is in the result or
// in the error, and so in the table, in the history and in the node's log. In it, the handler replaces each value of
// Secrets by the name of the secret. It cannot replace a secret that the program writes in another form, or on several
// lines. Give such a command Output -1. Arguments are shown by the system's list of processes, so they are no place for
// a secret, and neither is a payload.
package command
