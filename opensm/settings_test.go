package opensm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/internal/health"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var plainSettings = cmpopts.IgnoreUnexported(Settings{})

// TestDefaults compares the defaults with the configuration that OpenSM itself writes.
func TestDefaults(t *testing.T) {
	path, err := Program("opensm")
	if err != nil {
		t.Skip("OpenSM is not installed")
	}
	file := filepath.Join(t.TempDir(), "conf")
	cmd := exec.Command(path, "-F", "/nonexistent", "-c", file)
	cmd.Env = []string{}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readConf(data)
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultSettings()
	want.RoutingEngine = "" // "(null)", which means min-hop
	if diff := cmp.Diff(want, got, plainSettings); diff != "" {
		t.Errorf("defaults (-ours +OpenSM's):\n%s", diff)
	}
	vendors := []string{"ar_mode", "shield_mode", "sharp_enabled"} // of NVIDIA's managers
	for key := range setters {
		if known := got.origins[key].line > 0; known == slices.Contains(vendors, key) {
			t.Errorf("OpenSM knows the key %s: %v", key, known)
		}
	}
}

func TestReadConf(t *testing.T) {
	for name, c := range map[string]struct {
		conf  string
		want  func(s *Settings)
		fault string
	}{
		"empty":    {"", func(*Settings) {}, ""},
		"comments": {"# lmc 5\nlmc 3# five\n#\n\n", func(s *Settings) { s.LMC = 3 }, ""},
		"later":    {"lmc 3\nlmc 5\n", func(s *Settings) { s.LMC = 5 }, ""},
		"spaces":   {" \tlmc \t 5 \r\n", func(s *Settings) { s.LMC = 5 }, ""},
		"hex":      {"log_flags 0x43\nlmc 07", func(s *Settings) { s.LogFlags, s.LMC = 0x43, 7 }, ""},
		"quotes":   {"lfts_file \"/a b/c\"\nlog_file '/l'\ndump_files_dir \"", func(s *Settings) { s.LFTsFile, s.LogFile, s.DumpDir = "/a b/c", "/l", "" }, ""},
		"null":     {"routing_engine file\nlfts_file /x\nrouting_engine (null)\nlfts_file (null)", func(s *Settings) { s.RoutingEngine = "" }, ""},
		"boolean":  {"use_ucast_cache TRUE\nsweep_on_trap FALSE", func(s *Settings) { s.UcastCache, s.SweepOnTrap = true, false }, ""},
		"yes":      {"use_ucast_cache yes", func(*Settings) {}, `line 1: use_ucast_cache: "yes" means FALSE`},
		"no value": {"sweep_on_trap\nlmc", func(s *Settings) { s.SweepOnTrap = false }, `line 2: lmc: "" is not a number`},
		"text":     {"lmc 3\nlmc five", func(s *Settings) { s.LMC = 3 }, `line 2: lmc: "five" is not a number`},
		"trailing": {"lmc 3 x", func(*Settings) {}, "not a number"},
		"huge":     {"lmc 300", func(*Settings) {}, "lmc: 300 is over 255"},
		"negative": {"lmc -1", func(*Settings) {}, "not a number"},
		"eight":    {"\nlmc 8", func(*Settings) {}, "line 2: lmc 8 is over 7"},
		"nul":      {"lmc 3\x004\nsm_inactive TRUE", func(s *Settings) { s.LMC, s.Inactive = 3, true }, ""},
		"long":     {strings.Repeat("x", maxConfLine) + "lmc 4", func(s *Settings) { s.LMC = 4 }, ""},
		"unknown":  {"lmcx 5\nLMC 5\nlmc=5", func(*Settings) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := DefaultSettings()
			c.want(&want)
			got, err := readConf([]byte(c.conf))
			if c.fault != "" {
				mustContain(t, err, c.fault)
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, got, plainSettings); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadSettings(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "o.conf"), []byte("lmc 3\nuse_ucast_cache TRUE\ndump_files_dir /conf\nlog_flags 0x03\n"))
	load := func(args string, env map[string]string) Settings {
		t.Helper()
		s, err := LoadSettings(&Process{Cmdline: append([]string{"opensm"}, strings.Fields(args)...), Cwd: dir, Env: env}, "/nonexistent")
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		return s
	}
	for args, is := range map[string]func(s Settings) bool{
		"":                         func(s Settings) bool { return s.LMC == 0 && s.Conf == "/nonexistent" && s.DumpDir == "/tmp/e" },
		"-F o.conf":                func(s Settings) bool { return s.LMC == 3 && s.UcastCache && s.DumpDir == "/conf" },
		"-Fo.conf -l 5":            func(s Settings) bool { return s.LMC == 5 && s.Conf == filepath.Join(dir, "o.conf") },
		"-l5 --config o.conf":      func(s Settings) bool { return s.LMC == 5 },
		"--config=o.conf -lmc 0x5": func(s Settings) bool { return s.LMC == 5 },
		"-R file,updn -U t": func(s Settings) bool {
			return s.RoutingEngine == "file,updn" && s.LFTsFile == filepath.Join(dir, "t")
		},
		"--rout file -lfts /t":          func(s Settings) bool { return s.RoutingEngine == "file" && s.LFTsFile == "/t" },
		"-A -x -r":                      func(s Settings) bool { return s.UcastCache && s.HonorGUID2LID && s.ReassignLIDs },
		"-BAx -f l":                     func(s Settings) bool { return s.UcastCache && s.HonorGUID2LID && s.LogFile == filepath.Join(dir, "l") },
		"-ucast_cache --honor_guid2lid": func(s Settings) bool { return s.UcastCache && s.HonorGUID2LID },
		"-D 0x43 -d2":                   func(s Settings) bool { return s.LogFlags == 0x43 && s.LogFlush },
		"-v -v":                         func(s Settings) bool { return s.LogFlags == 15 },
		"-V":                            func(s Settings) bool { return s.LogFlags == 0xFF && s.LogFlush },
		"--dump_files_dir d -M m": func(s Settings) bool {
			return s.DumpDir == filepath.Join(dir, "d") && s.LIDMatrixFile == filepath.Join(dir, "m")
		},
		"-s 0 -I":                    func(s Settings) bool { return s.SweepInterval == 0 && s.Inactive },
		"-g -A":                      func(s Settings) bool { return !s.UcastCache },
		"--pidfile -A -- -l 5":       func(s Settings) bool { return !s.UcastCache && s.LMC == 0 },
		"--guid 0x1 --log_file /v/l": func(s Settings) bool { return s.LogFile == "/v/l" },
	} {
		if s := load(args, map[string]string{"OSM_TMP_DIR": "/tmp/e", "OSM_CACHE_DIR": "cache"}); !is(s) || s.CacheDir != filepath.Join(dir, "cache") {
			t.Errorf("%q gave %+v", args, s)
		}
	}
	for args, fault := range map[string]string{"--nonsense": "--nonsense", "-l": "lacks its value", "-j": "unknown", "-l x": "not a number"} {
		_, err := LoadSettings(&Process{Cmdline: append([]string{"opensm"}, strings.Fields(args)...)}, "/nonexistent")
		mustContain(t, err, fault)
	}
	s, err := LoadSettings(nil, filepath.Join(dir, "o.conf"))
	if err != nil || s.LMC != 3 || !s.Since.IsZero() || s.ConfMod.IsZero() {
		t.Errorf("not running: %+v, %v", s, err)
	}
}

// TestCheck makes one thing wrong at a time.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "lfts")
	put(t, table, nil)
	good := "routing_engine file,updn\nlmc 5\nhonor_guid2lid_file TRUE\nlfts_file " + table + "\nroot_guid_file " + "/run/root" + "\n"
	const pluginLines = "event_plugin_name other forsosm\n"
	want := Want{Socket: DefaultSocket, LFTsFile: table, RootFile: "/run/root", DumpDir: "/var/log", CacheDir: "/var/cache/opensm/", Lanes: 20, LMC: 5}
	for name, c := range map[string]struct {
		more  string // lines of opensm.conf
		args  string
		alter func(s *Settings, w *Want)
		codes []string
		text  string
	}{
		"good":            {},
		"engine":          {more: "routing_engine updn", codes: []string{RoutingEngineWrong}, text: `make line 6 of /etc/opensm/opensm.conf read "routing_engine file,updn" and restart OpenSM`},
		"second engine":   {more: "routing_engine minhop,file,updn", codes: []string{RoutingEngineWrong}},
		"no engine":       {more: "routing_engine (null)", codes: []string{RoutingEngineWrong}},
		"fallback":        {more: "routing_engine file", codes: []string{FallbackMissing}, text: "nothing takes a dead cable out"},
		"no fallback":     {more: "routing_engine file,no_fallback", codes: []string{FallbackMissing}},
		"spaces":          {more: "routing_engine file, updn"},
		"plugin":          {more: pluginLines + "routing_engine fors,file,updn"},
		"plugin alone":    {more: pluginLines + "routing_engine fors", codes: []string{FallbackMissing}, text: `"routing_engine fors,file,updn"`},
		"plugin and updn": {more: pluginLines + "routing_engine fors,updn", codes: []string{FallbackMissing}},
		"plugin unasked":  {more: pluginLines, codes: []string{PluginEngineMissing}, text: "a sweep of their own"},
		"plugin unknown":  {more: "routing_engine fors,file,updn", codes: []string{PluginEngineUnknown}, text: `"event_plugin_name forsosm"`},
		"other socket": {more: pluginLines + "routing_engine fors file updn\nevent_plugin_options deadline=20,socket=/s", codes: []string{PluginSocketWrong},
			text: `read "event_plugin_options socket=/run/forsd/opensm.sock deadline=20" and restart`},
		"root":           {more: "root_guid_file (null)", codes: []string{RootFileWrong}, text: "root_guid_file " + "/run/root"},
		"cache":          {more: "use_ucast_cache TRUE", codes: []string{UcastCacheOn}, text: `read "use_ucast_cache FALSE"`},
		"cache option":   {args: "-A", codes: []string{UcastCacheOn}, text: `take -A off OpenSM's command line, put the line "use_ucast_cache FALSE" into`},
		"no table":       {more: "lfts_file (null)", codes: []string{LFTsFileMissing}, text: "lfts_file " + table},
		"other table":    {more: "lfts_file " + dir, codes: []string{LFTsFileWrong}, text: "OpenSM reads " + dir},
		"lmc":            {more: "lmc 4", codes: []string{LMCWrong, LMCTooSmall}, text: `"lmc 5"`},
		"any lmc":        {more: "lmc 4", alter: func(_ *Settings, w *Want) { w.LMC = -1 }, codes: []string{LMCTooSmall}, text: "16 LIDs for 20 lanes"},
		"enough":         {more: "lmc 6", alter: func(_ *Settings, w *Want) { w.LMC = -1 }},
		"too many lanes": {more: "lmc 7", alter: func(_ *Settings, w *Want) { w.LMC, w.Lanes = 7, 200 }, codes: []string{LMCTooSmall}, text: "7 is the most"},
		"switch LMC":     {more: "lmc_esp0 TRUE", codes: []string{LMCOnSwitches}},
		"matrix":         {more: "lid_matrix_dump_file /m", codes: []string{LIDMatrixFileSet}},
		"dumps":          {more: "dump_files_dir /d", codes: []string{DumpDirWrong}, text: "OpenSM writes opensm-subnet.lst to /d, and forsd watches /var/log"},
		"caches":         {alter: func(s *Settings, _ *Want) { s.CacheDir = "/c" }, codes: []string{CacheDirWrong}, text: "opensm.cache_dir: /c"},
		"trap":           {more: "sweep_on_trap FALSE", codes: []string{SweepOnTrapOff}, text: "send OpenSM a SIGHUP"},
		"interval":       {more: "sweep_interval 0", codes: []string{SweepIntervalZero}},
		"reassign":       {args: "-r", codes: []string{ReassignLIDsOn}},
		"honor":          {more: "honor_guid2lid_file FALSE", codes: []string{HonorGUID2LIDOff}},
		"ar_mode":        {more: "ar_mode 1", codes: []string{AdaptiveRoutingOn}, text: `make line 6 of /etc/opensm/opensm.conf read "ar_mode 0"`},
		"ar engine":      {more: "routing_engine ar_updn", codes: []string{RoutingEngineWrong, AdaptiveRoutingOn}, text: "ar_updn"},
		"armgr":          {more: "event_plugin_name armgr", codes: []string{AdaptiveRoutingOn}, text: "take it out of event_plugin_name"},
		"shield":         {more: "shield_mode 3", codes: []string{ShieldOn}, text: `read "shield_mode 0"`},
		"sharp":          {more: "sharp_enabled 2", codes: []string{SharpOn}, text: "sharp_enabled is 2"},
		"vendor's off":   {more: "ar_mode 0\nshield_mode 0\nsharp_enabled FALSE"},
		"inactive":       {more: "sm_inactive TRUE", codes: []string{SMInactive}},
		"alone":          {more: "ignore_other_sm TRUE", codes: []string{OthersIgnored}, text: `read "ignore_other_sm FALSE"`},
		"guarded":        {more: "m_key 0x17\nm_key_protection_level 2", codes: []string{MKeyGuards}, text: `read "m_key_protection_level 1"`},
		"open key":       {more: "m_key 0x17\nm_key_protection_level 1"},
		"no key":         {more: "m_key_protection_level 3"},
		"slow log":       {args: "-D 0x43", codes: []string{LogRoutingSlow}, text: "200 ms"},
		"quiet log":      {more: "log_flags 1", codes: []string{LogInfoOff}, text: "log_flags 0x03"},
		"newer":          {alter: func(s *Settings, _ *Want) { s.Since, s.ConfMod = time.Unix(100, 0), time.Unix(200, 0) }, codes: []string{RestartNeeded}},
		"older":          {alter: func(s *Settings, _ *Want) { s.Since, s.ConfMod = time.Unix(200, 0), time.Unix(100, 0) }},
		"unseen":         {alter: func(s *Settings, _ *Want) { s.Unseen = "the rest" }, codes: []string{SettingsUnseen}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := readConf([]byte(good + c.more + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			options, err := parseArgs(strings.Fields(c.args))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range options {
				if err := s.apply(o); err != nil {
					t.Fatal(err)
				}
			}
			w := want
			if c.alter != nil {
				c.alter(&s, &w)
			}
			var codes []string
			var texts strings.Builder
			for _, f := range s.Check(w) {
				codes = append(codes, f.Code)
				texts.WriteString(f.Text + "\n")
			}
			if !slices.Equal(codes, c.codes) {
				t.Errorf("codes %q, want %q\n%s", codes, c.codes, texts.String())
			}
			if !strings.Contains(texts.String(), c.text) {
				t.Errorf("%q is not in\n%s", c.text, texts.String())
			}
		})
	}
}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Code] || k.Code == "" || k.Title == "" {
			t.Errorf("kind %+v", k)
		}
		if k.Severity != health.Info && k.Severity != health.Degraded && k.Severity != health.Critical {
			t.Errorf("%s: severity %q", k.Code, k.Severity)
		}
		seen[k.Code] = true
	}
}

func FuzzReadConf(f *testing.F) {
	f.Add([]byte("lmc 5\nrouting_engine file,updn\n#\nlog_flags 0x43\n\"\n"))
	f.Add([]byte("lfts_file '\ndump_files_dir \"\"\nlmc +0x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _ := readConf(data)
		if s.LMC > maxLMC {
			t.Errorf("LMC %d", s.LMC)
		}
		again, _ := readConf(append(slices.Clone(data), "\nlmc 2\nuse_ucast_cache TRUE\n"...))
		if again.LMC != 2 || !again.UcastCache {
			t.Error("the last line did not win")
		}
		s.Check(Want{LFTsFile: "/x", Lanes: 20, LMC: 5})
	})
}

func FuzzParseArgs(f *testing.F) {
	f.Add("-F\x00o.conf\x00-l5\x00--ucast\x00-vvD3")
	f.Add("--\x00-A\x00--log_file=x\x00-g")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		options, _ := parseArgs(args)
		for _, o := range options {
			if !slices.ContainsFunc(flags, func(f flag) bool { return f.long == o.long }) {
				t.Errorf("option %+v is none", o)
			}
			if o.value != "TRUE" && !strings.Contains(line, o.value) {
				t.Errorf("the value of %+v is not in %q", o, line)
			}
		}
	})
}

// readConf is what an opensm.conf makes of the defaults.
func readConf(data []byte) (Settings, error) {
	s := DefaultSettings()
	err := s.readConf(data)
	return s, err
}
