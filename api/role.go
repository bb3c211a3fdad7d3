package api

import (
	"fmt"
	"slices"
)

// Role is a set of permissions. Each role includes the permissions of those before it.
type Role uint8

// The roles. A Reader is any client over TCP without TLS.
const (
	Nobody        Role = iota // health and metrics
	Reader                    // reads
	Viewer                    // reads, and asks what-if questions
	Operator                  // orders
	Administrator             // the baseline, settings, tokens
)

// roleNames are the names of roles.
var roleNames = [...]string{"nobody", "reader", "viewer", "operator", "administrator"}

// String returns the role's name.
func (r Role) String() string { return roleNames[r] }

// MarshalText returns the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a role's name.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(roleNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%.40q is not a role: want viewer, operator or administrator", text)
	}
	*r = Role(i)
	return nil
}
