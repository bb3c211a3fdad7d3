package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// maxKept bounds the size of all files in an archive. The baseline and guid2lid of the largest
// fabrics are some megabytes.
const maxKept = 64 << 20

// keptFile is a file that a backup holds.
type keptFile struct {
	name, path string
	manager    bool // OpenSM's
	ifAbsent   bool // an existing file stays
}

// keptFiles lists what a backup holds.
func keptFiles(path string, c *config.Config) []keptFile {
	return []keptFile{
		{name: "forsd.yaml", path: path},
		{name: "baseline.json", path: filepath.Join(c.StateDir, "baseline.json")},
		{name: "promised.json", path: filepath.Join(c.StateDir, "promised.json"), ifAbsent: true}, // numbers never go back
		{name: "decisions.json", path: filepath.Join(c.StateDir, "decisions.json")},
		{name: "tokens.json", path: filepath.Join(c.StateDir, "tokens.json"), ifAbsent: true}, // revoked tokens stay invalid
		{name: "opensm.conf", path: c.OpenSM.Conf, manager: true},
		{name: "guid2lid", path: filepath.Join(c.OpenSM.CacheDir, opensm.GUID2LIDFile), manager: true},
	}
}

// stateConfig reads forsd.yaml; the default one may be absent.
func stateConfig(cmd *cobra.Command, path string) (*config.Config, error) {
	c, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) && !cmd.Flags().Changed("config") {
		return config.Default(), nil
	}
	return c, err
}

func backupCommand() *cobra.Command {
	var path, out string
	cmd := &cobra.Command{
		Use:   "backup --out FILE",
		Short: "Keep forsd's configuration and baseline, and OpenSM's settings and LIDs",
		Long: `Backup writes forsd.yaml, the baseline, the numbers promised, drains and decisions
about cables, tokens (their hashes), opensm.conf and OpenSM's guid2lid into a tar archive,
compressed by gzip. Files that are not there are left out, and named. Plans and jobs are
not kept: forsd makes plans again. Run it as root. The archive is for its owner alone, as
opensm.conf may hold the M_Key, and forsd.yaml the address of a webhook.`,
		Example: "  sudo forsctl backup --out forsd-$(date +%F).tar.gz",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutput(cmd, command.Output{Flag: "out", Path: out, What: "the archive"}); err != nil {
				return err
			}
			c, err := stateConfig(cmd, path)
			if err != nil {
				return err
			}
			packed, err := pack(cmd, keptFiles(path, c))
			if err != nil {
				return err
			}
			return packed.write(cmd, out, "")
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "forsd's configuration; the default one may be absent")
	cmd.Flags().StringVar(&out, "out", "", "the archive to write, - for standard output")
	return cmd
}

// archive is a gzip-compressed tar archive that is being written.
type archive struct {
	bytes.Buffer
	zip  *gzip.Writer
	tape *tar.Writer
}

func newArchive() *archive {
	a := &archive{}
	a.zip = gzip.NewWriter(&a.Buffer)
	a.tape = tar.NewWriter(a.zip)
	return a
}

// add adds a file under the name in its header.
func (a *archive) add(head *tar.Header, data []byte) error {
	head.Size = int64(len(data))
	err := a.tape.WriteHeader(head)
	if err == nil {
		_, err = a.tape.Write(data)
	}
	return err
}

// write finishes the archive and writes it, for its owner alone. If there is something to say of a
// file, it says so on standard error.
func (a *archive) write(cmd *cobra.Command, out, remark string) error {
	if err := errors.Join(a.tape.Close(), a.zip.Close()); err != nil {
		return err
	}
	if at, err := os.Stat(out); out == "-" || err == nil && !at.Mode().IsRegular() {
		return command.WriteOut(cmd, out, a.Bytes())
	}
	if err := writeSecret(out, a.Bytes()); err != nil {
		return err
	}
	if remark != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "forsctl: wrote %s (%d kB): %s\n", out, a.Len()>>10, remark)
	}
	if command.WantsJSON(cmd) {
		return command.PrintJSON(cmd, map[string]any{"file": out, "bytes": a.Len()})
	}
	return nil
}

// pack archives the files that exist, and prints the names of the others.
func pack(cmd *cobra.Command, files []keptFile) (*archive, error) {
	out := newArchive()
	kept := 0
	for _, f := range files {
		data, err := os.ReadFile(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(cmd.ErrOrStderr(), "forsctl: there is no %s: left out\n", f.path)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("back up: %w", err)
		}
		info, err := os.Stat(f.path)
		if err != nil {
			return nil, err
		}
		head, err := tar.FileInfoHeader(info, "") // includes the mode and the names of owner and group
		if err != nil {
			return nil, err
		}
		head.Name = f.name
		if err := out.add(head, data); err != nil {
			return nil, err
		}
		kept++
	}
	if kept == 0 {
		return nil, errors.New("there is nothing to back up: name forsd's configuration by --config")
	}
	return out, nil
}

func restoreCommand() *cobra.Command {
	var path string
	var dry, manager bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put back what forsctl backup has kept",
		Long: `Restore puts forsd.yaml, the baseline, drains and decisions about cables of an archive
in place, while forsd is stopped, with the permissions that they had. Each file that it
replaces stays there, with .before-restore at the end of its name.
Numbers promised and tokens are put back only if there are none: numbers never go back,
and a token that was revoked since stays revoked.
With --opensm it puts back opensm.conf and guid2lid, too: stop OpenSM for that.`,
		Example: "  sudo systemctl stop forsd\n  sudo forsctl restore forsd-2026-11-20.tar.gz --dry-run\n  sudo forsctl restore forsd-2026-11-20.tar.gz\n  sudo systemctl start forsd",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := unpack(args[0])
			if err != nil {
				return err
			}
			c, err := stateConfig(cmd, path)
			if kept, has := content["forsd.yaml"]; has { // as it will be after the restore
				c, err = config.Parse(kept.data, path)
			}
			if err != nil {
				return fmt.Errorf("%s: forsd.yaml: %w", args[0], err)
			}
			if err := stopped(cmd.Context(), c); err != nil && !dry {
				return err
			}
			done := []restored{}
			for _, f := range keptFiles(path, c) {
				x, there := content[f.name]
				if !there || f.manager && !manager {
					continue
				}
				how, err := putBack(f, x, dry)
				if err != nil {
					return err
				}
				if done = append(done, how); !command.WantsJSON(cmd) {
					fmt.Fprintln(cmd.OutOrStdout(), how)
				}
			}
			if command.WantsJSON(cmd) {
				return command.PrintJSON(cmd, map[string]any{"files": done})
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "where forsd's configuration belongs")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check the archive and say what would be done")
	cmd.Flags().BoolVar(&manager, "opensm", false, "put back OpenSM's files as well")
	return cmd
}

// stopped fails if forsd answers, because a running forsd would overwrite the restored files.
func stopped(ctx context.Context, c *config.Config) error {
	client, err := api.Dial(c.API.Socket)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := client.Status(ctx); err == nil {
		return errors.New("forsd is running: stop it first, by systemctl stop forsd")
	}
	return nil
}

// content is one file from an archive.
type content struct {
	data        []byte
	mode        fs.FileMode
	user, group string
}

// unpack reads an archive and checks its baseline. It reads no more than an archive of forsctl
// backup can hold, even if the archive is compressed much better.
func unpack(path string) (map[string]content, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s is not an archive of forsctl backup: %w", path, err)
	}
	known := map[string]bool{}
	for _, k := range keptFiles("", config.Default()) {
		known[k.name] = true
	}
	out := map[string]content{}
	left := &io.LimitedReader{R: zip, N: maxKept}
	for tape := tar.NewReader(left); ; {
		head, err := tape.Next()
		switch {
		case errors.Is(err, io.EOF):
			if base, has := out["baseline.json"]; has {
				if _, err := topology.ReadBaseline(base.data); err != nil {
					return nil, fmt.Errorf("%s, baseline.json: %w", path, err)
				}
			}
			return out, nil
		case err == nil && !known[head.Name]:
			err = fmt.Errorf("it holds %.80q", head.Name)
		case err == nil && head.Size > maxKept:
			err = errTooLarge
		}
		x := content{}
		if err == nil {
			x = content{mode: head.FileInfo().Mode().Perm(), user: head.Uname, group: head.Gname}
			x.data, err = io.ReadAll(tape)
		}
		if err != nil && left.N == 0 {
			err = errTooLarge
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not an archive of forsctl backup, or is cut off: %w", path, err)
		}
		out[head.Name] = x
	}
}

var errTooLarge = fmt.Errorf("it holds more than %d MiB", maxKept>>20)

// putBack restores a file, and keeps a copy of the file it replaces.
func putBack(f keptFile, x content, dry bool) (restored, error) {
	old, err := os.ReadFile(f.path)
	switch {
	case err == nil && bytes.Equal(old, x.data):
		return restored{File: f.path, Result: "same"}, nil
	case err == nil && f.ifAbsent:
		return restored{File: f.path, Result: "stays"}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return restored{}, err
	}
	replaced, done := err == nil, restored{File: f.path, Result: "restored"}
	if replaced {
		done.Old = f.path + ".before-restore"
	}
	if dry {
		return done, nil
	}
	return done, x.put(f.path, old, replaced)
}

// restored is the outcome for a file.
type restored struct {
	File   string `json:"file"`
	Result string `json:"result"`        // same, stays or restored
	Old    string `json:"old,omitempty"` // where the replaced file is
}

// String returns the outcome as a line of text.
func (r restored) String() string {
	if r.Old != "" {
		return fmt.Sprintf("%-9s %s (the old one is %s)", r.Result, r.File, r.Old)
	}
	return fmt.Sprintf("%-9s %s", r.Result, r.File)
}

// put writes the file with its archived permissions and owner. A file that is already there is
// kept under another name, and its permissions and owner stay if they let fewer users read it.
func (x *content) put(path string, old []byte, replaces bool) error {
	if !replaces {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := writeAs(path, x.data, x.mode); err != nil {
			return err
		}
		return x.own(path)
	}
	was, err := os.Stat(path)
	if err != nil {
		return err
	}
	now, aside := was.Mode().Perm(), path+".before-restore"
	if err := writeAs(aside, old, now); err != nil {
		return err
	}
	err = errors.Join(sameOwner(aside, was), writeAs(path, x.data, now&x.mode))
	if err != nil || x.mode&^now == 0 {
		return errors.Join(err, x.own(path))
	}
	return errors.Join(os.Chmod(path, now), sameOwner(path, was))
}

// own gives a file to its archived owner and group, looked up by name, or else to those of its
// directory.
func (x *content) own(path string) error {
	u, uerr := user.Lookup(x.user)
	g, gerr := user.LookupGroup(x.group)
	if uerr != nil || gerr != nil || os.Getuid() != 0 {
		dir, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return err
		}
		return sameOwner(path, dir)
	}
	uid, _ := strconv.Atoi(u.Uid) // both are numbers on Linux
	gid, _ := strconv.Atoi(g.Gid)
	return os.Chown(path, uid, gid)
}
