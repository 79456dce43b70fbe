// Package keys has the keys of the HTTP API. A key names a caller. It says what the caller may do, in whose name tasks
// are scheduled, and whose tasks the caller has.
//
// [Keys] creates, lists and revokes keys. [Authenticator] finds the key of a call, and remembers it for some seconds.
// [Keys.Enter] holds the transaction of a call to a tenant.
//
// A key is a text of 46 characters, "tt_" and 32 random bytes. Only its SHA-256 is stored. Nobody can guess 256 random
// bits, so a slow hash, as for passwords, would protect nothing. The index on the hash finds the key. The time that
// this takes tells nothing about stored keys, because the caller does not know which text has which hash.
package keys
