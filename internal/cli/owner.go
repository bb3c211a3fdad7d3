package cli

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/google/renameio/v2"
)

// sameOwner gives a file the owner of another file.
func sameOwner(path string, of fs.FileInfo) error {
	if stat, is := of.Sys().(*syscall.Stat_t); is && os.Getuid() == 0 {
		return os.Chown(path, int(stat.Uid), int(stat.Gid))
	}
	return nil
}

// writeSecret writes a file that only its owner may read.
func writeSecret(path string, data []byte) error { return writeAs(path, data, 0o600) }

// writeAs writes a file with the given permissions, even if it replaces a file with others.
func writeAs(path string, data []byte, mode fs.FileMode) error {
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // does nothing after the file has replaced the old one
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
