// Package mistyped does not compile.
package mistyped

func Two() int { return "two" }
