// Package fairuse bounds what a caller of the HTTP API, or a visitor of the dashboard, takes from a node, so that
// enough is left for others.
package fairuse
