package opensm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// notifier says when one of some files may have changed. It watches their
// directories, which outlive the files, and follows a directory that is
// replaced.
type notifier struct {
	files  []string // paths
	every  time.Duration
	signal func(at time.Time)
	report func(code string, err error)

	inotify *fsnotify.Watcher
	watched map[string]version // directory → identity when it was last added
}

// run watches until ctx ends. Where the kernel has no watch to give, it reports
// that and leaves the work to the poller.
func (n *notifier) run(ctx context.Context) {
	var err error
	if n.inotify, err = fsnotify.NewWatcher(); err != nil {
		n.report(WatchDegraded, fmt.Errorf("watch for changes: %w; raise fs.inotify.max_user_instances; until forsd is restarted it polls every %v", err, n.every))
		return
	}
	defer n.inotify.Close()
	n.watched = make(map[string]version)
	n.attach()
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-n.inotify.Events:
			if !open {
				return
			}
			n.event(e)
		case _, open := <-n.inotify.Errors:
			if !open {
				return
			}
			n.signal(time.Now()) // events were lost
		case <-tick.C:
			n.attach()
		}
	}
}

// event signals what concerns the files, and follows what concerns their
// directories.
func (n *notifier) event(e fsnotify.Event) {
	for _, file := range n.files {
		switch filepath.Clean(e.Name) {
		case filepath.Clean(file):
			if e.Op != fsnotify.Chmod {
				n.signal(time.Now())
			}
		case filepath.Dir(file):
			if e.Op.Has(fsnotify.Remove) || e.Op.Has(fsnotify.Rename) {
				delete(n.watched, filepath.Dir(file)) // a new directory may get the old inode number
				n.attach()
			}
		}
	}
}

// attach watches every directory that is not watched yet or was replaced.
func (n *notifier) attach() {
	var failed error
	for _, file := range n.files {
		dir := filepath.Dir(file)
		info, err := os.Stat(dir)
		if err != nil {
			delete(n.watched, dir)
			continue // the poller reports that the file is missing
		}
		id := versionOf(info)
		id.size, id.mod = 0, time.Time{}
		if n.watched[dir] == id {
			continue
		}
		_ = n.inotify.Remove(dir) // of the directory that was there before, if any
		if err := n.inotify.Add(dir); err != nil {
			failed = fmt.Errorf("watch %s: %w; raise fs.inotify.max_user_watches; until then forsd polls every %v", dir, err, n.every)
			continue
		}
		n.watched[dir] = id
		n.signal(time.Now())
	}
	n.report(WatchDegraded, failed)
}
