// Package options reads the options of commands. A flag wins over an environment variable, the variable over the
// configuration file, and the file over the default.
//
// A command declares a slice of Option and binds it with Catalog.Bind. All options of the program are in one Catalog,
// which knows the keys that the configuration file may have and the variables that the environment may have.
package options
