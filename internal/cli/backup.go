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
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/topology"
)

// maxKept bounds a file of an archive.
const maxKept = 256 << 20

// keptFile is a file that a backup holds.
type keptFile struct {
	name, path string
	manager    bool // OpenSM's
	ifAbsent   bool // a file that is there stays
}

// keptFiles lists what a backup holds.
func keptFiles(path string, c *config.Config) []keptFile {
	return []keptFile{
		{name: "forsd.yaml", path: path},
		{name: "baseline.json", path: filepath.Join(c.StateDir, "baseline.json")},
		{name: "promised.json", path: filepath.Join(c.StateDir, "promised.json"), ifAbsent: true}, // numbers never go back
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
		Long: `Backup writes forsd.yaml, the baseline, the numbers promised, opensm.conf and
OpenSM's guid2lid into a tar archive, compressed by gzip. Files that are not there are
left out, and named. Plans are not kept: forsd makes them anew. Run it as root.`,
		Example: "  sudo forsctl backup --out forsd-$(date +%F).tar.gz",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutput(cmd, command.Output{Flag: "out", Path: out, What: "the archive"}); err != nil {
				return err
			}
			c, err := stateConfig(cmd, path)
			if err != nil {
				return err
			}
			data, err := pack(cmd, keptFiles(path, c))
			if err != nil {
				return err
			}
			return command.WriteOut(cmd, out, data)
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "forsd's configuration; the default one may be absent")
	cmd.Flags().StringVar(&out, "out", "", "the archive to write, - for standard output")
	return cmd
}

// archive is a tar archive, compressed by gzip, in the making.
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

// add adds a file.
func (a *archive) add(name string, data []byte, mode fs.FileMode, at time.Time) error {
	err := a.tape.WriteHeader(&tar.Header{Name: name, Mode: int64(mode.Perm()), Size: int64(len(data)), ModTime: at})
	if err == nil {
		_, err = a.tape.Write(data)
	}
	return err
}

// end is all of it.
func (a *archive) end() ([]byte, error) {
	err := errors.Join(a.tape.Close(), a.zip.Close())
	return a.Bytes(), err
}

// pack makes an archive of the files that are there, and says which are not.
func pack(cmd *cobra.Command, files []keptFile) ([]byte, error) {
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
		if err := out.add(f.name, data, info.Mode(), info.ModTime()); err != nil {
			return nil, err
		}
		kept++
	}
	if kept == 0 {
		return nil, errors.New("there is nothing to back up: name forsd's configuration by --config")
	}
	return out.end()
}

func restoreCommand() *cobra.Command {
	var path string
	var dry, manager bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put back what forsctl backup has kept",
		Long: `Restore puts forsd.yaml and the baseline of an archive in place, while forsd is
stopped. Each file that it replaces stays beside it, with .before-restore at its end.
Numbers promised are put back only where there are none, for they never go back.
With --opensm it puts back opensm.conf and guid2lid, too: stop OpenSM for that.`,
		Example: "  sudo systemctl stop forsd\n  sudo forsctl restore forsd-2026-11-20.tar.gz --dry-run\n  sudo forsctl restore forsd-2026-11-20.tar.gz\n  sudo systemctl start forsd",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := unpack(args[0])
			if err != nil {
				return err
			}
			c, err := restoredConfig(cmd, path, content["forsd.yaml"])
			if err != nil {
				return fmt.Errorf("%s: forsd.yaml: %w", args[0], err)
			}
			if err := stopped(cmd.Context(), c); err != nil && !dry {
				return err
			}
			for _, f := range keptFiles(path, c) {
				data, there := content[f.name]
				if !there || f.manager && !manager {
					continue
				}
				if err := putBack(cmd, f, data, dry); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "where forsd's configuration belongs")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "check the archive and say what would be done")
	cmd.Flags().BoolVar(&manager, "opensm", false, "put back OpenSM's files as well")
	return cmd
}

// restoredConfig is the configuration after the restoring.
func restoredConfig(cmd *cobra.Command, path string, data []byte) (*config.Config, error) {
	if data == nil {
		return stateConfig(cmd, path)
	}
	return config.Parse(data, path)
}

// stopped fails where a forsd answers, which would overwrite what is put back.
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

// unpack reads an archive, and checks the baseline in it.
func unpack(path string) (map[string][]byte, error) {
	data, err := command.ReadPath(path, maxKept)
	if err != nil {
		return nil, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s is not an archive of forsctl backup: %w", path, err)
	}
	content := map[string][]byte{}
	for tape := tar.NewReader(zip); ; {
		head, err := tape.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not an archive of forsctl backup, or is cut off: %w", path, err)
		}
		if content[head.Name], err = io.ReadAll(io.LimitReader(tape, maxKept)); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", path, head.Name, err)
		}
	}
	if base := content["baseline.json"]; base != nil {
		if _, err := topology.ReadBaseline(base); err != nil {
			return nil, fmt.Errorf("%s, baseline.json: %w", path, err)
		}
	}
	return content, nil
}

// putBack puts a file in place, and keeps the one that was there.
func putBack(cmd *cobra.Command, f keptFile, data []byte, dry bool) error {
	out := cmd.OutOrStdout()
	old, err := os.ReadFile(f.path)
	switch {
	case err == nil && bytes.Equal(old, data):
		_, err = fmt.Fprintf(out, "same      %s\n", f.path)
		return err
	case err == nil && f.ifAbsent:
		_, err = fmt.Fprintf(out, "stays     %s\n", f.path)
		return err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	replaced := err == nil
	if !dry {
		if replaced {
			err = renameio.WriteFile(f.path+".before-restore", old, 0o644)
		} else {
			err = os.MkdirAll(filepath.Dir(f.path), 0o755)
		}
		if err != nil {
			return err
		}
		if err := putFile(f.path, data); err != nil {
			return err
		}
	}
	note := ""
	if replaced {
		note = " (the old one is " + f.path + ".before-restore)"
	}
	_, err = fmt.Fprintf(out, "restored  %s%s\n", f.path, note)
	return err
}

// putFile writes a file for whom the one there, or else its directory, belongs to.
func putFile(path string, data []byte) error {
	owner, err := os.Stat(path)
	if err != nil {
		if owner, err = os.Stat(filepath.Dir(path)); err != nil {
			return err
		}
	}
	if err := renameio.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	return sameOwner(path, owner)
}
