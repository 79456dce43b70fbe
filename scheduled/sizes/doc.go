// Package sizes contains only a test. It makes much more of something than is usual, such as lanes, missed fires
// or handlers that hang, and measures how late plain tasks start beside it. There are 20 plain tasks a second. Each
// must start within two seconds of its time, by the database's clock.
//
// The rows are in rows_test.go, and how each is made. make test runs them in a short form. make sizes runs them one
// after the other, with sizes that are ten times larger. An empty run, which has plain tasks and nothing else, goes on
// beside them. The log compares each row with it.
package sizes
