// Package rights determines which users may access a file, by owner, groups and mode, and how to
// grant a missing permission, and listens on Unix sockets that have their permissions from the start.
// Access control lists are ignored.
package rights

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// UmadGroup is the group that systemd adds to forsd's, for the umad nodes.
const UmadGroup = "forsd-umad"

// The permissions that May checks, as in the last three bits of a mode.
const (
	Search fs.FileMode = 1 << iota
	Write
	Read
)

// ID is a user with its groups.
type ID struct {
	Name   string
	UID    uint32
	Groups []uint32
}

// Lookup finds a user with its groups, including UmadGroup if that exists.
func Lookup(name string) (*ID, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("there is no user %s", name)
	}
	id := &ID{Name: name}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s has uid %q: %w", name, u.Uid, err)
	}
	id.UID = uint32(uid)
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", name, err)
	}
	if g, err := user.LookupGroup(UmadGroup); err == nil {
		groups = append(groups, g.Gid)
	}
	for _, g := range append(groups, u.Gid) {
		if gid, err := strconv.ParseUint(g, 10, 32); err == nil {
			id.Groups = append(id.Groups, uint32(gid))
		}
	}
	return id, nil
}

// Self returns the identity of this process.
func Self() *ID {
	id := &ID{Name: userName(uint32(os.Geteuid())), UID: uint32(os.Geteuid()), Groups: []uint32{uint32(os.Getegid())}}
	groups, _ := os.Getgroups() // without them the check is stricter
	for _, g := range groups {
		id.Groups = append(id.Groups, uint32(g))
	}
	return id
}

// Lack is a permission that a user does not have.
type Lack struct {
	User string
	Want fs.FileMode // the missing permissions
	Path string
	mode fs.FileMode
	uid  uint32
	gid  uint32
}

// Error names the user, the permission and the file.
func (l *Lack) Error() string {
	return fmt.Sprintf("user %s lacks %s permission on %s (%s, owner %s, group %s)", l.User, permissions(l.Want), l.Path, l.mode, userName(l.uid), groupName(l.gid))
}

// Group returns the name of the file's group.
func (l *Lack) Group() string { return groupName(l.gid) }

// ByGroup reports whether members of the file's group, other than root's, have the
// permission.
func (l *Lack) ByGroup() bool { return l.gid != 0 && l.mode.Perm()>>3&l.Want == l.Want }

// Advice returns a command that grants the permission: through the file's group, if that has
// the permission and is not root's.
func (l *Lack) Advice() string {
	switch {
	case l.ByGroup():
		return fmt.Sprintf("run usermod -aG %s %s; it counts for what the user starts from then on", l.Group(), l.User)
	case l.Want&Write != 0:
		return fmt.Sprintf("run chown %s %s", l.User, l.Path)
	}
	letters := map[fs.FileMode]string{Read: "r", Search: "x", Read | Search: "rx"}[l.Want]
	return fmt.Sprintf("run chmod o+%s %s, or setfacl -m u:%s:%s %s", letters, l.Path, l.User, letters, l.Path)
}

// May returns nil if the user has the permissions on a path and can reach it, otherwise a
// *Lack, or an error that wraps fs.ErrNotExist if the path does not exist.
func (id *ID) May(want fs.FileMode, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// Check the directories first, because the path is not accessible without them.
	if err := id.mayReach(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s is out of reach: %w", path, err)
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if err := id.mayReach(filepath.Dir(target)); err != nil {
		return fmt.Errorf("%s is out of reach: %w", path, err)
	}
	return id.has(want, target)
}

// mayReach returns nil if the user may search a directory and all those above it.
func (id *ID) mayReach(dir string) error {
	if up := filepath.Dir(dir); up != dir {
		if err := id.mayReach(up); err != nil {
			return err
		}
	}
	err := id.has(Search, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the directories below do not exist either
	}
	return err
}

// has checks one file.
func (id *ID) has(want fs.FileMode, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || id.UID == 0 {
		return nil
	}
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == id.UID:
		mode >>= 6
	case slices.Contains(id.Groups, stat.Gid):
		mode >>= 3
	}
	if mode&want == want {
		return nil
	}
	return &Lack{User: id.Name, Want: want &^ mode & (Read | Write | Search), Path: path, mode: info.Mode(), uid: stat.Uid, gid: stat.Gid}
}

// Lacks returns the missing permission that made an operation on a file fail. It returns nil if
// the error is another one, or the modes do not explain it.
func (id *ID) Lacks(err error) *Lack {
	if !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	path := ""
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		path = at.Path
	} else if at, ok := errors.AsType[*os.LinkError](err); ok {
		path = at.New
	}
	if path == "" {
		return nil
	}
	for _, e := range []error{id.May(Read, path), id.May(Write, path), id.May(Write|Search, filepath.Dir(path))} {
		if lack, ok := errors.AsType[*Lack](e); ok {
			return lack
		}
	}
	return nil
}

// Explain adds to a permission error of this process the missing permission and how to
// grant it. Other errors are returned unchanged.
func Explain(err error) error {
	if l := Self().Lacks(err); l != nil {
		return fmt.Errorf("%w: %w: %s", err, l, l.Advice())
	}
	return err
}

// permissions names the missing permissions.
func permissions(mode fs.FileMode) string {
	var text string
	for _, p := range []struct {
		bit  fs.FileMode
		name string
	}{{Read, "read"}, {Write, "write"}, {Search, "search"}} {
		if mode&p.bit == 0 {
			continue
		}
		if text != "" {
			text += " and "
		}
		text += p.name
	}
	return text
}

// userName returns the name of a user, or its number.
func userName(uid uint32) string {
	text := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(text); err == nil {
		return u.Username
	}
	return text
}

// groupName returns the name of a group, or its number.
func groupName(gid uint32) string {
	text := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(text); err == nil {
		return g.Name
	}
	return text
}
