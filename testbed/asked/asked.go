// Package asked has contexts that end when they have been asked so often, for tests of
// work that is to end with its context.
package asked

import (
	"context"
	"errors"
)

// ErrEnough is what a Context says once it has ended.
var ErrEnough = errors.New("enough")

// Context ends after its error has been asked for Most times. One goroutine asks it.
type Context struct {
	context.Context
	Most  int
	Asked int // how often it has been
}

// Err is nil Most times, then ErrEnough.
func (c *Context) Err() error {
	if c.Asked++; c.Asked > c.Most {
		return ErrEnough
	}
	return nil
}
