package opensm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strconv"
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

const (
	maxConf     = 16 << 20 // bytes
	maxConfLine = 1022     // bytes that OpenSM reads of a line in one piece
	maxLMC      = 7
)

// setter puts the text of a setting where it belongs. An error says why OpenSM
// ignores it.
type setter func(s *Settings, text string) error

// setters are the keys of opensm.conf that forsd depends on.
var setters = map[string]setter{
	"routing_engine":       word(func(s *Settings) *string { return &s.RoutingEngine }),
	"lfts_file":            word(func(s *Settings) *string { return &s.LFTsFile }),
	"root_guid_file":       word(func(s *Settings) *string { return &s.RootFile }),
	"lid_matrix_dump_file": word(func(s *Settings) *string { return &s.LIDMatrixFile }),
	"dump_files_dir":       word(func(s *Settings) *string { return &s.DumpDir }),
	"event_plugin_name":    word(func(s *Settings) *string { return &s.EventPlugins }),
	"event_plugin_options": word(func(s *Settings) *string { return &s.PluginOptions }),
	"node_name_map_name":   word(func(s *Settings) *string { return &s.NodeNames }),
	"log_file":             word(func(s *Settings) *string { return &s.LogFile }),
	"ar_mode":              word(func(s *Settings) *string { return &s.AdaptiveRouting }),
	"shield_mode":          word(func(s *Settings) *string { return &s.Shield }),
	"sharp_enabled":        word(func(s *Settings) *string { return &s.Sharp }),
	"use_ucast_cache":      truth(func(s *Settings) *bool { return &s.UcastCache }),
	"lmc_esp0":             truth(func(s *Settings) *bool { return &s.LMCOnSwitches }),
	"force_log_flush":      truth(func(s *Settings) *bool { return &s.LogFlush }),
	"sweep_on_trap":        truth(func(s *Settings) *bool { return &s.SweepOnTrap }),
	"honor_guid2lid_file":  truth(func(s *Settings) *bool { return &s.HonorGUID2LID }),
	"reassign_lids":        truth(func(s *Settings) *bool { return &s.ReassignLIDs }),
	"ignore_other_sm":      truth(func(s *Settings) *bool { return &s.IgnoreOthers }),
	"sm_inactive":          truth(func(s *Settings) *bool { return &s.Inactive }),
	"lmc":                  number(math.MaxUint8, func(s *Settings, v uint64) { s.LMC = uint8(v) }),
	"log_flags":            number(math.MaxUint8, func(s *Settings, v uint64) { s.LogFlags = uint8(v) }),
	"sweep_interval":       number(math.MaxUint32, func(s *Settings, v uint64) { s.SweepInterval = uint32(v) }),

	"m_key":                  number(math.MaxUint64, func(s *Settings, v uint64) { s.MKey = v }),
	"m_key_protection_level": number(math.MaxUint8, func(s *Settings, v uint64) { s.MKeyLevel = uint8(v) }),
}

func word(field func(*Settings) *string) setter {
	return func(s *Settings, text string) error {
		if text == "(null)" {
			text = ""
		}
		*field(s) = text
		return nil
	}
}

// truth is TRUE or, whatever the text, false.
func truth(field func(*Settings) *bool) setter {
	return func(s *Settings, text string) error {
		*field(s) = text == "TRUE"
		if text != "TRUE" && text != "FALSE" {
			return fmt.Errorf("%q means FALSE to OpenSM, which knows only TRUE and FALSE", text)
		}
		return nil
	}
}

func number(limit uint64, set func(*Settings, uint64)) setter {
	return func(s *Settings, text string) error {
		v, err := cNumber(text)
		if err != nil {
			return fmt.Errorf("%q is not a number; OpenSM ignores it", text)
		}
		if v > limit {
			return fmt.Errorf("%s is over %d; OpenSM ignores it", text, limit)
		}
		set(s, v)
		return nil
	}
}

// cNumber reads a number as strtoull does with base 0 where nothing follows.
func cNumber(text string) (uint64, error) {
	text = strings.TrimPrefix(text, "+")
	base := 10
	switch {
	case strings.HasPrefix(text, "0x"), strings.HasPrefix(text, "0X"):
		base, text = 16, text[2:]
	case len(text) > 1 && text[0] == '0':
		base = 8
	}
	return strconv.ParseUint(text, base, 64)
}

// Setting is a line of an opensm.conf that sets something.
type Setting struct {
	Line       int // from 1
	Key, Value string
}

// ConfSettings yields the settings of an opensm.conf as OpenSM reads them: a key and a value on a
// line, '#' begins a comment, and a later line wins.
func ConfSettings(data []byte) iter.Seq[Setting] {
	return func(yield func(Setting) bool) {
		for line := 1; len(data) > 0; line++ {
			var text []byte
			text, data, _ = bytes.Cut(data, []byte{'\n'})
			for {
				piece := text[:min(len(text), maxConfLine)]
				if key, value := readConfLine(piece); key != "" && !yield(Setting{line, key, value}) {
					return
				}
				if text = text[len(piece):]; len(text) == 0 {
					break
				}
			}
		}
	}
}

func readConfLine(text []byte) (key, value string) {
	text, _, _ = bytes.Cut(text, []byte{0})
	text, _, _ = bytes.Cut(text, []byte{'#'})
	text = bytes.TrimLeft(text, " \t")
	end := bytes.IndexAny(text, " \t")
	if end < 0 {
		return string(text), ""
	}
	return string(text[:end]), cleanValue(text[end+1:])
}

// readConf reads an opensm.conf. Missing keys keep their values, and keys that forsd does not
// depend on are ignored. The error lists, by line, values that OpenSM probably interprets
// other than intended; the settings are usable nevertheless.
func (s *Settings) readConf(data []byte) error {
	var problems []error
	for x := range ConfSettings(data) {
		set, known := setters[x.Key]
		if !known {
			continue
		}
		s.origins[x.Key] = origin{line: x.Line}
		if err := set(s, x.Value); err != nil {
			problems = append(problems, fmt.Errorf("line %d: %s: %w", x.Line, x.Key, err))
		}
	}
	if s.LMC > maxLMC {
		problems = append(problems, fmt.Errorf("line %d: lmc %d is over %d; OpenSM takes 0 instead", s.origins["lmc"].line, s.LMC, maxLMC))
		s.LMC = 0
	}
	return errors.Join(problems...)
}

// cleanValue takes away the white space around a value, then its quotes.
func cleanValue(value []byte) string {
	text := strings.Trim(string(value), " \t\n\v\f\r")
	if text == "" {
		return ""
	}
	first, last := text[0], text[len(text)-1]
	if first != last || first != '"' && first != '\'' {
		return text
	}
	return text[1:max(1, len(text)-1)]
}
