// Package options reads the options of commands. A flag wins over an environment variable, and the variable over the
// default.
//
// A command declares a slice of Option and binds it with Catalog.Bind. All options of the program are in one Catalog,
// which knows the variables that the environment may have.
package options
