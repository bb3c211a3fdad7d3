// Package access decides who may do what: the roles, who has them on the Unix socket and by
// certificate, tokens, rate limits, and the certificates of the TLS listener, which are
// read again when their files change.
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

// Role is what a caller may do. Each may do what those before it may.
type Role uint8

// The roles. A Reader is anybody who asks over TCP without TLS.
const (
	Nobody        Role = iota // health and metrics
	Reader                    // reads
	Viewer                    // reads, and asks what would be
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
		return fmt.Errorf("%.40q is no role: want viewer, operator or administrator", text)
	}
	*r = Role(i)
	return nil
}

// Rules name who has which role: users by name or number, groups behind @, certificates by
// their common name behind cn: or an organizational unit behind ou:.
type Rules struct {
	Administrators, Operators, Viewers []string
}

// Lists are rules that names of groups have been looked up for.
type Lists struct {
	users, groups map[string]Role // groups by number
	cns, ous      map[string]Role
}

// Check tells what is wrong with an entry of a rule by itself.
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

// Compile looks up the groups of rules. Unknown groups are returned and have no members.
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
						l.groups[entry] = Nobody // it restricts the socket nevertheless
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
// everything, and where no user and no group is named, so may all who can write to the
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

// OfCertificate returns the role of a certificate that was verified.
func (l *Lists) OfCertificate(c *x509.Certificate) Role {
	role := l.cns[c.Subject.CommonName]
	for _, unit := range c.Subject.OrganizationalUnit {
		role = max(role, l.ous[unit])
	}
	return role
}
