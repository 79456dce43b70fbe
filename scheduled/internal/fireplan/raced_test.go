//go:build race

package fireplan

const raced = true
