package opensm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Settings are those settings of OpenSM that forsd depends on. Paths are
// absolute where OpenSM's working directory is known.
type Settings struct {
	RoutingEngine string // routing_engine, names separated by commas
	LFTsFile      string // lfts_file, "" if none
	RootFile      string // root_guid_file, "" if none
	LIDMatrixFile string // lid_matrix_dump_file, "" if none
	UcastCache    bool   // use_ucast_cache
	LMC           uint8  // lmc
	LMCOnSwitches bool   // lmc_esp0: enhanced switch ports 0 get 2^LMC LIDs too
	DumpDir       string // dump_files_dir
	CacheDir      string // the environment's OSM_CACHE_DIR
	LogFile       string // log_file
	NodeNames     string // node_name_map_name, "" if none
	LogFlags      uint8  // log_flags
	LogFlush      bool   // force_log_flush
	SweepOnTrap   bool   // sweep_on_trap
	SweepInterval uint32 // sweep_interval in seconds, 0 for no periodic sweeps
	HonorGUID2LID bool   // honor_guid2lid_file
	ReassignLIDs  bool   // reassign_lids
	Inactive      bool   // sm_inactive
	IgnoreOthers  bool   // ignore_other_sm
	MKey          uint64 // m_key
	MKeyLevel     uint8  // m_key_protection_level
	EventPlugins  string // event_plugin_name, names separated by commas
	PluginOptions string // event_plugin_options
	// Settings of NVIDIA's managers, which OpenSM 3.3 ignores; "" if not set.
	AdaptiveRouting string // ar_mode
	Shield          string // shield_mode
	Sharp           string // sharp_enabled

	Conf    string    // path of opensm.conf
	ConfMod time.Time // when it was last changed, zero if it does not exist
	Since   time.Time // when OpenSM was started, zero if it does not run
	// Unseen describes the part of the running process that could not be read, or is "";
	// defaults are used instead.
	Unseen string

	origins map[string]origin
}

// origin is where a setting comes from; the zero value is OpenSM's default.
type origin struct {
	line   int    // of opensm.conf
	option string // of the command line, such as -A
	env    string // name of a variable
}

// Bits of log_flags.
const (
	logInfo    = 0x02
	logRouting = 0x40
)

// DefaultSettings returns those of OpenSM 3.3.23 without a configuration file.
func DefaultSettings() Settings {
	return Settings{
		RoutingEngine: "minhop",
		DumpDir:       DefaultDumpDir,
		CacheDir:      DefaultCacheDir,
		LogFile:       DefaultLog,
		LogFlags:      0x03,
		SweepOnTrap:   true,
		SweepInterval: 10,
		Conf:          DefaultConf,
		origins:       make(map[string]origin),
	}
}

// LoadSettings finds the settings of a running OpenSM: the defaults, then the environment,
// the configuration file and the command line of p. If p is nil they are those that it
// would start with, from conf, the path of opensm.conf, or DefaultConf if that is ""; the
// command line of p takes precedence over conf. A missing file is not an error: OpenSM runs
// without. An error that comes with settings lists values that OpenSM ignores, and the
// settings hold the values used instead.
func LoadSettings(p *Process, conf string) (Settings, error) {
	s := DefaultSettings()
	s.Conf = cmp.Or(conf, DefaultConf)
	var options []option
	var problems []error
	if p != nil {
		s.Since = p.Started
		s.environment(p)
		var err error
		if len(p.Cmdline) > 0 {
			options, err = parseArgs(p.Cmdline[1:])
			problems = append(problems, err)
		}
		for _, o := range options {
			if o.long == "config" {
				s.Conf = absolute(p.Cwd, o.value)
			}
		}
	}
	problems = append(problems, s.readConfFile())
	for _, o := range options {
		problems = append(problems, s.apply(o))
	}
	if p != nil {
		for _, path := range []*string{&s.LFTsFile, &s.RootFile, &s.LIDMatrixFile, &s.DumpDir, &s.CacheDir, &s.LogFile, &s.NodeNames} {
			*path = absolute(p.Cwd, *path)
		}
	}
	return s, errors.Join(problems...)
}

// environment takes the variables of the process that OpenSM reads.
func (s *Settings) environment(p *Process) {
	if p.EnvErr != nil {
		s.Unseen = fmt.Sprintf("the environment of %s (%v); OSM_CACHE_DIR and OSM_TMP_DIR are taken to be unset", p, p.EnvErr)
	}
	for _, v := range []struct {
		name, key string
		to        *string
	}{{"OSM_CACHE_DIR", "OSM_CACHE_DIR", &s.CacheDir}, {"OSM_TMP_DIR", "dump_files_dir", &s.DumpDir}} {
		if value := p.Env[v.name]; value != "" {
			*v.to = value
			s.origins[v.key] = origin{env: v.name}
		}
	}
}

func (s *Settings) readConfFile() error {
	data, v, err := readStable(s.Conf, maxConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read OpenSM's configuration: %w", err)
	}
	s.ConfMod = v.mod
	if err := s.readConf(data); err != nil {
		return fmt.Errorf("%s: %w", s.Conf, err)
	}
	return nil
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}

// engines returns the names in routing_engine.
func (s *Settings) engines() []string { return words(s.RoutingEngine) }

// words splits as OpenSM does, by strtok.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
}

// PluginLoaded reports whether OpenSM should load forsd's plugin.
func (s *Settings) PluginLoaded() bool { return slices.Contains(words(s.EventPlugins), PluginName) }

// PluginSocket returns the path at which the plugin looks for forsd, "" if not set.
func (s *Settings) PluginSocket() string {
	for _, o := range words(s.PluginOptions) {
		if path, found := strings.CutPrefix(o, "socket="); found {
			return path
		}
	}
	return ""
}
