// Package access implements the API's access control: roles and their assignment on the Unix
// socket and by certificate, tokens, rate limits, and the certificates of the TLS listener,
// which are reloaded when their files change.
package access

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
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

var names = [...]string{"nobody", "reader", "viewer", "operator", "administrator"}

// String returns the role's name.
func (r Role) String() string { return names[r] }

// MarshalText returns the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a role's name.
func (r *Role) UnmarshalText(text []byte) error {
	i := slices.Index(names[:], string(text))
	if i < 0 {
		return fmt.Errorf("%.40q is not a role: want viewer, operator or administrator", text)
	}
	*r = Role(i)
	return nil
}

// Rules assign roles: users by name or number, groups after @, certificates by their common
// name after cn: or an organizational unit after ou:.
type Rules struct {
	Administrators, Operators, Viewers []string
}

// Lists are compiled rules, with the groups looked up.
type Lists struct {
	users, groups map[string]Role // groups by number
	cns, ous      map[string]Role
}

// Check returns an error for an invalid entry of a rule.
func Check(entry string) error {
	for _, prefix := range []string{"@", "cn:", "ou:", ""} {
		if name, is := strings.CutPrefix(entry, prefix); is {
			if name == "" || strings.TrimSpace(name) != name {
				return fmt.Errorf("%q names nobody: want a user, @group, cn:NAME or ou:UNIT", entry)
			}
			return nil
		}
	}
	return nil
}

// Compile looks up the groups of rules. It returns unknown groups; they have no members.
func Compile(r Rules) (l *Lists, unknown []string) {
	l = &Lists{users: map[string]Role{}, groups: map[string]Role{}, cns: map[string]Role{}, ous: map[string]Role{}}
	for _, x := range []struct {
		role Role
		list []string
	}{{Viewer, r.Viewers}, {Operator, r.Operators}, {Administrator, r.Administrators}} {
		for _, entry := range x.list {
			kind, name := l.users, entry
			if cut, is := strings.CutPrefix(entry, "cn:"); is {
				kind, name = l.cns, cut
			} else if cut, is := strings.CutPrefix(entry, "ou:"); is {
				kind, name = l.ous, cut
			} else if cut, is := strings.CutPrefix(entry, "@"); is {
				kind, name = l.groups, cut
				if _, err := strconv.ParseUint(name, 10, 32); err != nil {
					g, err := user.LookupGroup(name)
					if err != nil {
						unknown = append(unknown, entry)
						l.groups[entry] = Nobody // an unknown group restricts the socket too
						continue
					}
					name = g.Gid
				}
			}
			kind[name] = max(kind[name], x.role)
		}
	}
	return l, unknown
}

// OfUser returns the role of a user on the Unix socket. Root and forsd's own user may do
// everything. If the rules name no users and no groups, so may every user who can write to the
// socket.
func (l *Lists) OfUser(uid uint32, name string, groups []uint32) Role {
	if uid == 0 || uid == uint32(os.Geteuid()) || len(l.users)+len(l.groups) == 0 {
		return Administrator
	}
	role := max(l.users[name], l.users[strconv.FormatUint(uint64(uid), 10)])
	for _, g := range groups {
		role = max(role, l.groups[strconv.FormatUint(uint64(g), 10)])
	}
	return role
}

// OfCertificate returns the role of a verified certificate.
func (l *Lists) OfCertificate(c *x509.Certificate) Role {
	role := l.cns[c.Subject.CommonName]
	for _, unit := range c.Subject.OrganizationalUnit {
		role = max(role, l.ous[unit])
	}
	return role
}
