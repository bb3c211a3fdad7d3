// Package e2e brings up a whole site for tests and the demonstration: a simulated fabric under a
// real OpenSM, and the forsd program. It watches the site from outside, through the API, the
// files and the switches' own tables, and judges the results by the verifier.
package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/phasetable"
	"github.com/forsd/forsd/testbed/ibsim"
	"github.com/forsd/forsd/testbed/judge"
	"github.com/forsd/forsd/topology"
)

// Options describe a site. The zero value of an option is an operator's usual choice.
type Options struct {
	Fabric *topology.Fabric
	Forsd  string // path of the program; see Build
	LMC    uint8
	Host   string // where OpenSM and the tools run, by description or GUID; "" means the first adapter
	Other  string // where the second manager of a Pair runs; "" means the last adapter

	Plugin   string        // path of the library that joins OpenSM to forsd; "" means none
	Deadline time.Duration // how long OpenSM's sweep waits for the plugin's tables; 0 means the plugin's own

	Engine string            // OpenSM's routing_engine; "" means file,updn, behind fors if OpenSM has a plugin
	Tables string            // OpenSM's lfts_file; "" means the file that forsd writes
	Conf   map[string]string // further settings of opensm.conf
	Config string            // further sections of forsd.yaml
	LMCKey string            // opensm.lmc in forsd.yaml; "" means auto
	Umad   string            // opensm.umad in forsd.yaml; "" means auto
	Traps  string            // opensm.traps in forsd.yaml; "" means auto

	// Pair prepares for a second manager with a forsd of its own: see Second. It
	// needs the plugin.
	Pair bool

	// TLS has the certificates by which the two forsd of a pair know each other; without it they
	// speak by their sockets.
	TLS *[2]Secure

	// Reports lets forsd get the Reports that it subscribes to, as it does on a real
	// adapter; see ibsim.Sim.EnvOpen and, if Manager is nil, EnvBeside. With the plugin
	// it needs none.
	Reports bool

	// Manager may change how OpenSM is started; nil changes nothing.
	Manager func(*ibsim.OpenSMOptions)
}

// Secure is the address at which a forsd listens for TLS, and its files. Its certificate is of
// the name forsd.
type Secure struct{ Listen, Certificate, Key, CA string }

// Site is a simulated fabric, and the programs on it. Only the fabric is started; forsd and OpenSM
// may come in any order.
type Site struct {
	Sim    *ibsim.Sim
	SM     *ibsim.OpenSM // nil before StartOpenSM
	Forsd  *Forsd        // nil before StartForsd
	Client *api.Client

	Judge *judge.Site // a second site's is the same

	Overruns int // how often Until has started forsd again; see Forsd.Overrun

	base    *phasetable.View // the plan for base LIDs that Check has seen last; nil before that
	options Options
	second  string // in the names of its directories; "" for the first site of a simulation
	dir     string // of forsd's files
}

// mark is in the names of things that belong to the second site.
const mark = "-2"

// New simulates the fabric and writes forsd's configuration. The site's files
// are in a temporary directory that goes with it.
func New(ctx context.Context, o Options) (*Site, error) {
	if o.Host == "" {
		o.Host = adapters(o.Fabric)[0]
	}
	for _, path := range []*string{&o.Forsd, &o.Plugin} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil { // they start elsewhere
			return nil, err
		}
	}
	if o.Engine == "" {
		o.Engine = "file,updn"
		if o.Plugin != "" {
			o.Engine = "fors," + o.Engine
		}
	}
	sim, err := ibsim.Start(ctx, ibsim.Options{Fabric: o.Fabric})
	if err != nil {
		return nil, err
	}
	s := &Site{Sim: sim, Judge: &judge.Site{}, options: o}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, sim.Close())
	}
	return s, nil
}

// adapters lists the adapters of a fabric by their GUIDs.
func adapters(f *topology.Fabric) (guids []string) {
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Kind == topology.Adapter {
			guids = append(guids, n.GUID.String())
		}
	}
	return guids
}

// Second is a second manager with a forsd of its own on the fabric of a site that
// was made with Pair, with other settings in opensm.conf. Its
// simulation ends with the first site.
func (s *Site) Second(conf map[string]string) (*Site, error) {
	o := s.options
	all := adapters(o.Fabric)
	o.Host, o.Conf, o.Tables = cmp.Or(o.Other, all[len(all)-1]), conf, ""
	second := &Site{Sim: s.Sim, Judge: s.Judge, options: o, second: mark}
	return second, second.prepare()
}

// prepare writes forsd's configuration.
func (s *Site) prepare() (err error) {
	s.dir = filepath.Join(s.Sim.Dir(), "forsd"+s.second)
	s.options.Tables = cmp.Or(s.options.Tables, s.TableFile())
	err = os.MkdirAll(filepath.Join(s.dir, "tmp"), 0o755)
	if err == nil {
		err = s.writeConfig(s.ConfigFile(), s.pidFile())
	}
	if err == nil {
		s.Client, err = api.Dial(s.Socket())
	}
	return err
}

// Close ends forsd, and on the first site everything else, and removes the files.
func (s *Site) Close() error {
	if s.Forsd != nil {
		s.Forsd.Kill()
	}
	s.Client.Close()
	if s.second != "" {
		return nil
	}
	return s.Sim.Close()
}

// other is the directory of the pair's other forsd.
func (s *Site) other() string {
	if s.second != "" {
		return strings.TrimSuffix(s.dir, mark)
	}
	return s.dir + mark
}

// Dir holds forsd's files.
func (s *Site) Dir() string { return s.dir }

// ConfigFile is the path of forsd.yaml.
func (s *Site) ConfigFile() string { return filepath.Join(s.dir, "forsd.yaml") }

// Socket is the path of forsd's API.
func (s *Site) Socket() string { return filepath.Join(s.dir, "forsd.sock") }

// StateDir is forsd's state directory.
func (s *Site) StateDir() string { return filepath.Join(s.dir, "state") }

// PluginSocket is the path of the socket on which forsd hears OpenSM's plugin.
func (s *Site) PluginSocket() string { return filepath.Join(s.dir, "opensm.sock") }

// TableFile is the table file that forsd writes.
func (s *Site) TableFile() string { return filepath.Join(s.dir, "tables", "lfts.dump") }

// rootFile tells OpenSM's own engine where to begin.
func (s *Site) rootFile() string { return filepath.Join(s.dir, "updn.root") }

// ManagerDir holds OpenSM's files: configuration, log, dumps, guid2lid.
func (s *Site) ManagerDir() string { return filepath.Join(s.Sim.Dir(), "opensm"+s.second) }

// SubnetFile is OpenSM's dump of the fabric.
func (s *Site) SubnetFile() string { return filepath.Join(s.ManagerDir(), "opensm-subnet.lst") }

func (s *Site) pidFile() string { return filepath.Join(s.ManagerDir(), "opensm.pid") }

var configText = template.Must(template.New("forsd.yaml").Funcs(template.FuncMap{"quote": strconv.Quote}).Parse(`version: 1
state_dir: {{quote .State}}
opensm:
  dump_dir: {{quote .Manager}}
  cache_dir: {{quote .Manager}}
  conf: {{quote .Conf}}
  log: {{quote .Log}}
  lfts_file: {{quote .Tables}}
  root_guid_file: {{quote .Root}}
  pid_file: {{quote .PID}}
  lmc: {{.LMC}}
  umad: {{quote .Umad}}
  traps: {{quote .Traps}}
{{- if .Plugin}}
  plugin: {enabled: on, socket: {{quote .Plugin}}}
{{- else}}
  plugin: {enabled: off}
{{- end}}
  dump_command: [{{range $i, $w := .Dump}}{{if $i}}, {{end}}{{quote $w}}{{end}}]
api:
  socket: {{quote .Socket}}
{{- with .TLS}}
  tls: {listen: {{quote .Listen}}, certificate: {{quote .Certificate}}, key: {{quote .Key}}, client_ca: {{quote .CA}}}
{{- end}}
{{- if .Peer}}
peer: {address: {{quote .Peer}}}
{{- end}}
{{.More}}`))

// writeConfig writes a forsd.yaml that finds OpenSM by the given PID file.
func (s *Site) writeConfig(path, pidFile string) error {
	env, err := s.Sim.Env(s.options.Host)
	if err != nil {
		return err
	}
	plugin := ""
	if s.options.Plugin != "" {
		plugin = s.PluginSocket()
	}
	peer := ""
	if s.options.Pair {
		peer = filepath.Join(s.other(), "forsd.sock")
	}
	var own *Secure
	if by := s.options.TLS; by != nil {
		n := 0
		if s.second != "" {
			n = 1
		}
		own, peer = &by[n], "https://"+by[1-n].Listen
	}
	dump := append(append([]string{"env"}, env...), s.Sim.Prefix()...)
	var text strings.Builder
	err = configText.Execute(&text, map[string]any{
		"State": s.StateDir(), "Manager": s.ManagerDir(), "Socket": s.Socket(),
		"Conf": filepath.Join(s.ManagerDir(), "opensm.conf"), "Log": filepath.Join(s.ManagerDir(), "opensm.log"),
		"Tables": s.TableFile(), "Root": s.rootFile(), "PID": pidFile, "LMC": cmp.Or(s.options.LMCKey, "auto"), "Umad": cmp.Or(s.options.Umad, "auto"), "Dump": append(dump, "dump_fts", "-n"), "Plugin": plugin, "Traps": cmp.Or(s.options.Traps, "auto"), "Peer": peer, "TLS": own, "More": s.options.Config,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// StartOpenSM starts the subnet manager. It may be killed, stopped and restarted
// through s.SM.
func (s *Site) StartOpenSM(ctx context.Context) (err error) {
	o := ibsim.OpenSMOptions{Host: s.options.Host, LMC: s.options.LMC, RoutingEngine: s.options.Engine,
		LFTsFile: s.options.Tables, Dir: s.ManagerDir(), Conf: map[string]string{}}
	if strings.Contains(s.options.Engine, "file") { // of others it would be an order to go by
		o.Conf["root_guid_file"] = s.rootFile()
	}
	maps.Copy(o.Conf, s.options.Conf)
	if s.options.Plugin != "" {
		o.Plugin, o.PluginOptions = s.options.Plugin, "socket="+s.PluginSocket()
		if d := s.options.Deadline; d != 0 {
			o.PluginOptions += fmt.Sprintf(" deadline=%d", d.Milliseconds())
		}
	}
	o.Rival = s.options.Pair || s.options.Reports
	if s.options.Manager != nil {
		s.options.Manager(&o)
	}
	s.SM, err = s.Sim.StartOpenSM(ctx, o)
	return err
}

// StartForsd starts forsd on the site's configuration. It may return before forsd is up.
func (s *Site) StartForsd() error { return s.startForsd(s.ConfigFile()) }

// Start starts forsd and OpenSM.
func (s *Site) Start(ctx context.Context) error {
	if err := s.StartForsd(); err != nil {
		return err
	}
	return s.StartOpenSM(ctx)
}

// Up is Start, and waits until forsd is at rest.
func (s *Site) Up(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	_, err := s.Settled(ctx, nil)
	return err
}

// WithoutHistory makes forsd store no history, by a directory in place of its
// database.
func (s *Site) WithoutHistory() error {
	return os.MkdirAll(filepath.Join(s.StateDir(), "history.db"), 0o755)
}

// StartForsdBlind starts forsd on a configuration that lets it find no OpenSM:
// it can do everything but signal.
func (s *Site) StartForsdBlind() error {
	path := filepath.Join(s.dir, "blind.yaml")
	if err := s.writeConfig(path, filepath.Join(s.dir, "no.pid")); err != nil {
		return err
	}
	return s.startForsd(path)
}

// startForsd starts forsd as a client of the simulation, as which it reads the
// switches, and frees the places of earlier clients.
func (s *Site) startForsd(config string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Sim.DetachDead(ctx); err != nil {
		return err
	}
	env, err := s.Sim.Env(s.options.Host)
	end := func() {}
	switch {
	case s.options.Reports && s.options.Manager == nil:
		env, end, err = s.Sim.EnvBeside(s.options.Host)
	case s.options.Reports:
		env, end, err = s.Sim.EnvOpen(s.options.Host)
	}
	if err != nil {
		return err
	}
	if s.Forsd, err = startForsd(s.Sim.Prefix(), env, s.options.Forsd, config, s.dir); err != nil {
		end()
		return err
	}
	go func(forsd *Forsd) {
		<-forsd.Done()
		end()
	}(s.Forsd)
	return nil
}

// KillForsd kills forsd as a crash would, and frees the places in the simulation
// that it and its tools held; ibsim has ten.
func (s *Site) KillForsd(ctx context.Context) error {
	s.Forsd.Kill()
	return s.Sim.DetachDead(ctx)
}
