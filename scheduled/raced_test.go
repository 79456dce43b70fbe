//go:build race

package scheduled

const raced = true
