// Package taskdb has the statements by which the engine reads and writes tasks: it lists lanes, claims tasks, asks
// whether a claim may start, settles outcomes and forks occurrences. It owns no connection and starts no goroutine.
// Each method takes the connection or transaction on which it runs. Most take the time, too: nil is the database's
// clock, and a test gives another.
package taskdb
