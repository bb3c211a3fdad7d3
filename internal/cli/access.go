package cli

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// umadGroup is the group that systemd adds to forsd's, for the umad nodes.
const umadGroup = "forsd-umad"

// The permissions that may asks for, as in the last three bits of a mode.
const (
	searchable fs.FileMode = 1 << iota
	writable
	readable
)

// identity is a user whose access to files is judged by owner, groups and mode.
type identity struct {
	name   string
	uid    uint32
	groups []uint32
}

// lookupUser finds a user with its groups, and with umadGroup where it exists.
func lookupUser(name string) (*identity, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("there is no user %s", name)
	}
	id := &identity{name: name}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s has uid %q: %w", name, u.Uid, err)
	}
	id.uid = uint32(uid)
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %s: %w", name, err)
	}
	if g, err := user.LookupGroup(umadGroup); err == nil {
		groups = append(groups, g.Gid)
	}
	for _, g := range append(groups, u.Gid) {
		if gid, err := strconv.ParseUint(g, 10, 32); err == nil {
			id.groups = append(id.groups, uint32(gid))
		}
	}
	return id, nil
}

// self is the identity of this process.
func self() *identity {
	id := &identity{name: strconv.Itoa(os.Geteuid()), uid: uint32(os.Geteuid()), groups: []uint32{uint32(os.Getegid())}}
	if u, err := user.LookupId(id.name); err == nil {
		id.name = u.Username
	}
	groups, _ := os.Getgroups() // without them access is judged more strictly
	for _, g := range groups {
		id.groups = append(id.groups, uint32(g))
	}
	return id
}

// may tells whether the user has the permissions on a path and may get there:
// nil, or an error that says what is in the way and wraps fs.ErrNotExist where
// the path does not exist. Access control lists are not looked at.
func (id *identity) may(want fs.FileMode, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(target); ; dir = filepath.Dir(dir) {
		if err := id.has(searchable, dir); err != nil {
			return fmt.Errorf("%s is out of reach: %w", path, err)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return id.has(want, target)
}

// has judges one file.
func (id *identity) has(want fs.FileMode, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || id.uid == 0 {
		return nil
	}
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == id.uid:
		mode >>= 6
	case slices.Contains(id.groups, stat.Gid):
		mode >>= 3
	}
	if mode&want != want {
		return fmt.Errorf("user %s lacks %s permission on %s (%s, owner %d, group %d)", id.name, permissions(want&^mode), path, info.Mode(), stat.Uid, stat.Gid)
	}
	return nil
}

// permissions names what is missing.
func permissions(mode fs.FileMode) string {
	var text string
	for _, p := range []struct {
		bit  fs.FileMode
		name string
	}{{readable, "read"}, {writable, "write"}, {searchable, "search"}} {
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
