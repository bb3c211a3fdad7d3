package rehearsal

import (
	"os"
	"slices"
	"strings"

	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/health"
	"github.com/forsd/forsd/internal/report"
	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/podplan"
	"github.com/forsd/forsd/topology"
)

// own are the settings of OpenSM that a rehearsal makes itself: those of forsd, the paths of
// files, and those of the host on which OpenSM runs.
var own = []string{"routing_engine", "lmc", "lfts_file", "root_guid_file", "event_plugin_name", "event_plugin_options", "dump_files_dir", "log_file", "event_db_dump_file",
	"guid", "daemon", "console", "console_port", "sm_priority", "sminfo_polling_timeout", "polling_retry_number"}

// Settings judges a site's opensm.conf for a fabric, and returns the settings and the LMC of a
// rehearsal: those of the file as forsctl setup would change it.
func Settings(path string, conf []byte, f *topology.Fabric, base *topology.Baseline) (s *report.Settings, all map[string]string, lmc uint8) {
	c := &config.Default().OpenSM
	lids, lanes := podplan.LIDs(base)
	want := c.Want(lanes)
	ports, switches := hosts(f), 0
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			switches++
		}
	}
	suits, _ := opensm.SuitableLMC(lids, ports, switches)
	now, problems := opensm.ReadConf(conf)
	now.Conf = path
	changed := opensm.Apply(conf, now.Propose(want, suits, true))
	then, _ := opensm.ReadConf(changed)
	s = &report.Settings{File: path, Findings: []report.Finding{}}
	left := then.Check(want)
	for _, w := range now.Check(want) {
		if w.Code == opensm.CacheDirWrong { // it is of the environment
			continue
		}
		mended := !slices.ContainsFunc(left, func(l health.Warning) bool { return l.Code == w.Code })
		s.Findings = append(s.Findings, report.Finding{Warning: w, Mended: mended})
	}
	if problems != nil {
		s.Misread = strings.Split(problems.Error(), "\n")
	}
	all = map[string]string{}
	for x := range opensm.ConfSettings(changed) {
		if slices.Contains(own, x.Key) {
			continue
		}
		if strings.HasPrefix(x.Value, "/") {
			if _, err := os.Stat(x.Value); err != nil {
				continue // it is on another machine
			}
		}
		all[x.Key] = x.Value
	}
	return s, all, then.LMC
}
