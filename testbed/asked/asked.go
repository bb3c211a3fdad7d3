// Package asked has contexts that end after their error has been asked for a number of times,
// for tests of work that must end with its context.
package asked

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrEnough is the error of a Context that has ended.
var ErrEnough = errors.New("enough")

// Context ends after its error has been asked for Most times, by any goroutines.
type Context struct {
	context.Context
	Most  int
	asked atomic.Int64
}

// Err is nil Most times, then ErrEnough.
func (c *Context) Err() error {
	if c.asked.Add(1) > int64(c.Most) {
		return ErrEnough
	}
	return nil
}

// Asked is how often the error has been asked for.
func (c *Context) Asked() int { return int(c.asked.Load()) }
