// Package failing has a test that fails.
package failing

func Two() int { return 2 }
