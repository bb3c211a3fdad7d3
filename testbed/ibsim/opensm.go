package ibsim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// SubnetUp is in the line that OpenSM logs at the end of a successful sweep; it
// has written all its dumps by then.
const SubnetUp = "SUBNET UP"

// OpenSMOptions configure a subnet manager. Zero values mean OpenSM's defaults.
type OpenSMOptions struct {
	Host          string // the node where it runs, by description or GUID
	LMC           uint8
	RoutingEngine string // such as "file,no_fallback"
	LFTsFile      string // the table file of the engine "file"; not created here
	// Dir receives the files: configuration, log, dumps, caches, PID file.
	// Empty means opensm-1, opensm-2 … in the simulation's directory.
	Dir      string
	LogFlags uint8             // 0 means 0x03; 0x43 adds the routing dumps
	Conf     map[string]string // further settings of opensm.conf; log_file and those of simulated are taken
	// Plugin is the path of an event plugin, lib….so, and PluginOptions are its
	// options. Empty means none.
	Plugin, PluginOptions string
	// Rival is for several managers in one simulation, which talk to each other:
	// all of them need it to give up a request that another one does not answer,
	// as with the kernel on real adapters. It costs every MAD a detour. A standby
	// looks for the master often, and considers it dead only if it is silent for
	// longer than a busy machine would make it.
	Rival bool
	// Wrap is a command that runs OpenSM, such as valgrind with its options; nil
	// means none.
	Wrap []string
}

// OpenSM is a subnet manager of the simulation. It may be down: after Kill, Stop
// or a death of its own, and until Restart.
type OpenSM struct {
	sim     *Sim
	options OpenSMOptions

	mu      sync.Mutex
	process *process
}

// StartOpenSM writes opensm.conf and starts a subnet manager. It returns once
// OpenSM takes signals and begins to sweep; wait for SubnetUp if the end of the
// sweep matters. ctx bounds the start.
func (s *Sim) StartOpenSM(ctx context.Context, o OpenSMOptions) (*OpenSM, error) {
	if o.Dir == "" {
		s.mu.Lock()
		s.opensms++
		o.Dir = filepath.Join(s.dir, fmt.Sprintf("opensm-%d", s.opensms))
		s.mu.Unlock()
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("start OpenSM: %w", err)
	}
	o.Dir = dir
	m := &OpenSM{sim: s, options: o}
	if err := os.MkdirAll(m.workDir(), 0o755); err != nil {
		return nil, fmt.Errorf("start OpenSM: %w", err)
	}
	if err := os.WriteFile(m.ConfFile(), m.conf(), 0o644); err != nil {
		return nil, fmt.Errorf("start OpenSM: %w", err)
	}
	if err := m.launch(ctx); err != nil {
		return nil, fmt.Errorf("start OpenSM: %w", err)
	}
	return m, nil
}

// simulated are the settings for a simulation. It keeps no thresholds of ports and has no FDR10:
// with others OpenSM sets and asks every port again in each sweep. And all answers come at once.
var simulated = map[string]string{"fdr10": "0", "local_phy_errors_threshold": "0", "max_wire_smps": "64", "overrun_errors_threshold": "0"}

// conf is the text of opensm.conf.
func (m *OpenSM) conf() []byte {
	o := &m.options
	flags := cmp.Or(o.LogFlags, 0x03)
	conf := map[string]string{
		"lmc":             strconv.Itoa(int(o.LMC)),
		"log_flags":       fmt.Sprintf("0x%02x", flags),
		"force_log_flush": "TRUE",
		"dump_files_dir":  o.Dir,
		"console":         "off",
		"use_ucast_cache": "FALSE",
	}
	if o.RoutingEngine != "" {
		conf["routing_engine"] = o.RoutingEngine
	}
	if o.LFTsFile != "" {
		conf["lfts_file"] = o.LFTsFile
	}
	if o.Plugin != "" {
		conf["event_plugin_name"] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(o.Plugin), "lib"), ".so")
		conf["event_plugin_options"] = o.PluginOptions
	}
	if o.Rival {
		conf["sminfo_polling_timeout"], conf["polling_retry_number"] = "300", "4"
	}
	maps.Copy(conf, o.Conf)
	maps.Copy(conf, simulated)
	conf["log_file"] = m.LogFile()
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		fmt.Fprintf(&text, "%s %s\n", key, conf[key])
	}
	return text.Bytes()
}

// launch starts the program, waits until it takes signals and writes the PID
// file. OpenSM itself writes one only when it is a daemon.
func (m *OpenSM) launch(ctx context.Context) error {
	path, err := lookPath("opensm")
	if err != nil {
		return err
	}
	argv := append(slices.Clone(m.options.Wrap), path, "-F", m.ConfFile())
	cmd, err := m.sim.clientCommand(m.options.Host, argv[0], argv[1:]...)
	if err != nil {
		return err
	}
	cmd.Dir = m.workDir()
	if m.options.Plugin != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+filepath.Dir(m.options.Plugin))
	}
	var r *relay
	if m.options.Rival {
		if r, err = m.sim.newRelay(m.options.Host, false, false); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, "IBSIM_SOCKNAME="+r.name)
	}
	cmd.Env = append(cmd.Env, "OSM_CACHE_DIR="+m.Dir(), "OSM_TMP_DIR="+m.Dir())
	output, err := os.OpenFile(filepath.Join(m.Dir(), "opensm.out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	p, err := m.sim.start(cmd)
	if r != nil {
		r.closeAfter(p)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.process = p
	m.mu.Unlock()
	if err = p.awaitHandler(ctx, syscall.SIGHUP); err == nil {
		err = renameio.WriteFile(m.PIDFile(), []byte(strconv.Itoa(p.pid())+"\n"), 0o644)
	}
	if err != nil {
		m.Kill()
		said, _ := os.ReadFile(output.Name())
		return errors.Join(err, complaint(said))
	}
	return nil
}

// Dir is the directory with the dumps, guid2lid and OpenSM's other files.
func (m *OpenSM) Dir() string { return m.options.Dir }

// ConfFile is the path of opensm.conf. Changes count from the next Restart; some
// from the next sweep.
func (m *OpenSM) ConfFile() string { return filepath.Join(m.options.Dir, "opensm.conf") }

// LogFile is the path of the log, which continues over restarts.
func (m *OpenSM) LogFile() string { return filepath.Join(m.options.Dir, "opensm.log") }

// PIDFile is the path of the PID file. As with any daemon it stays behind when
// OpenSM is killed.
func (m *OpenSM) PIDFile() string { return filepath.Join(m.options.Dir, "opensm.pid") }

// workDir is the working directory, where the client library keeps files.
func (m *OpenSM) workDir() string { return filepath.Join(m.options.Dir, "work") }

func (m *OpenSM) current() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

// PID is the process's number, 0 while OpenSM is down.
func (m *OpenSM) PID() int {
	if p := m.current(); p.running() {
		return p.pid()
	}
	return 0
}

// Signal sends a signal: SIGHUP asks for a heavy sweep.
func (m *OpenSM) Signal(sig syscall.Signal) error {
	if err := m.current().cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal OpenSM: %w", err)
	}
	return nil
}

// Sweep asks for heavy sweeps until one has ended that began after the call: its
// dumps show the fabric as it is. Sweeps follow one another, so the second one to
// end began after the call.
func (m *OpenSM) Sweep(ctx context.Context) error {
	from := m.LogSize()
	for range 2 {
		if err := m.Signal(syscall.SIGHUP); err != nil {
			return err
		}
		var err error
		if _, from, err = m.WaitLog(ctx, SubnetUp, from); err != nil {
			return err
		}
	}
	return nil
}

// Kill kills OpenSM by SIGKILL, as a crash would.
func (m *OpenSM) Kill() {
	p := m.current()
	if !p.running() {
		return
	}
	p.kill()
	m.sim.detach(p.pid())
	m.cleanWorkDir()
}

// Stop asks OpenSM to end, as the service manager does, and waits until it has ended.
// It kills OpenSM after five seconds, or when ctx ends before.
func (m *OpenSM) Stop(ctx context.Context) {
	p := m.current()
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		m.cleanWorkDir()
	case <-ctx.Done():
		m.Kill()
	}
	os.Remove(m.PIDFile())
}

// Restart stops OpenSM if it runs, and starts it again on the same files. It
// returns when StartOpenSM does.
func (m *OpenSM) Restart(ctx context.Context) error {
	m.Stop(ctx)
	if err := m.launch(ctx); err != nil {
		return fmt.Errorf("restart OpenSM: %w", err)
	}
	return nil
}

// cleanWorkDir removes what the client library leaves behind.
func (m *OpenSM) cleanWorkDir() {
	left, _ := filepath.Glob(filepath.Join(m.workDir(), "sys-*"))
	for _, dir := range left {
		os.RemoveAll(dir)
	}
}

// Log returns the whole log.
func (m *OpenSM) Log() ([]byte, error) { return os.ReadFile(m.LogFile()) }

// LogSize is the log's length in bytes now: the offset from which WaitLog sees
// only later lines.
func (m *OpenSM) LogSize() int64 {
	info, err := os.Stat(m.LogFile())
	if err != nil {
		return 0
	}
	return info.Size()
}

// WaitLog waits for the first log line at or after the offset from that contains
// text, and returns it and the offset behind it. It gives up when ctx ends, and
// when OpenSM has ended without the line.
func (m *OpenSM) WaitLog(ctx context.Context, text string, from int64) (line string, end int64, err error) {
	p := m.current()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	tail := logTail{path: m.LogFile(), offset: from}
	defer tail.close()
	for {
		ended := !p.running()
		line, found, err := tail.find(text)
		if err != nil {
			return "", tail.offset, fmt.Errorf("wait for %q in OpenSM's log: %w", text, err)
		}
		if found {
			return line, tail.offset, nil
		}
		if ended {
			return "", tail.offset, fmt.Errorf("wait for %q in OpenSM's log: it ended before (%v)", text, p.cmd.ProcessState)
		}
		select {
		case <-tick.C:
		case <-p.done:
		case <-ctx.Done():
			return "", tail.offset, fmt.Errorf("wait for %q in OpenSM's log: %w, last line: %s", text, context.Cause(ctx), tail.last)
		}
	}
}

// logTail reads the lines of a growing file.
type logTail struct {
	path    string
	file    *os.File
	offset  int64  // behind the last line handed out
	pending []byte // read, not handed out
	last    string // the last line handed out
}

// find consumes lines until one contains text. A file that does not exist yet
// is empty.
func (t *logTail) find(text string) (line string, found bool, err error) {
	if t.file == nil {
		if t.file, err = os.Open(t.path); err != nil {
			t.file = nil
			if errors.Is(err, os.ErrNotExist) {
				return "", false, nil
			}
			return "", false, err
		}
	}
	more, err := io.ReadAll(io.NewSectionReader(t.file, t.offset+int64(len(t.pending)), 1<<40))
	if err != nil {
		return "", false, err
	}
	t.pending = append(t.pending, more...)
	for {
		i := bytes.IndexByte(t.pending, '\n')
		if i < 0 {
			return "", false, nil
		}
		t.last = string(t.pending[:i])
		t.pending = t.pending[i+1:]
		t.offset += int64(i + 1)
		if strings.Contains(t.last, text) {
			return t.last, true, nil
		}
	}
}

func (t *logTail) close() {
	if t.file != nil {
		t.file.Close()
	}
}
