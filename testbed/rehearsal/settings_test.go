package rehearsal

import (
	"strings"
	"testing"

	"github.com/forsd/forsd/opensm"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// TestSettings breaks settings one at a time. Of each the report says what to do, or that
// forsctl setup changes it, and then the rehearsal's OpenSM gets the changed one.
func TestSettings(t *testing.T) {
	f := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4})
	base, err := topology.Recognise(f)
	if err != nil {
		t.Fatal(err)
	}
	const site = "lmc 2\nevent_plugin_name forsosm\nrouting_engine fors,file,updn\nlfts_file /var/lib/forsd/opensm/lfts.dump\nroot_guid_file /run/forsd/updn.root\n" +
		"honor_guid2lid_file TRUE\ndaemon TRUE\nqos TRUE\nqos_policy_file /no/such/file\n"
	good, conf, lmc := Settings("opensm.conf", []byte(site), f, base)
	if len(good.Findings)+len(good.Misread) > 0 || lmc != 2 || conf["qos"] != "TRUE" {
		t.Errorf("as it should be: %+v, LMC %d, %v", good, lmc, conf)
	}
	for _, key := range []string{"daemon", "routing_engine", "qos_policy_file"} {
		if _, ok := conf[key]; ok {
			t.Errorf("the rehearsal's OpenSM gets %s %s", key, conf[key])
		}
	}
	for line, want := range map[string]struct {
		code   string
		mended bool
		then   string // what OpenSM gets
	}{
		"routing_engine ftree":                          {opensm.RoutingEngineWrong, true, ""},
		"routing_engine fors,file,no_fallback":          {opensm.FallbackMissing, true, ""},
		"use_ucast_cache TRUE":                          {opensm.UcastCacheOn, true, "FALSE"},
		"sweep_on_trap FALSE":                           {opensm.SweepOnTrapOff, true, "TRUE"},
		"sweep_interval 0":                              {opensm.SweepIntervalZero, true, "10"},
		"lmc 0":                                         {opensm.LMCTooSmall, true, ""},
		"lmc_esp0 TRUE":                                 {opensm.LMCOnSwitches, true, "FALSE"},
		"dump_files_dir /tmp":                           {opensm.DumpDirWrong, true, ""},
		"reassign_lids TRUE":                            {opensm.ReassignLIDsOn, true, "FALSE"},
		"sm_inactive TRUE":                              {opensm.SMInactive, true, "FALSE"},
		"honor_guid2lid_file no":                        {opensm.HonorGUID2LIDOff, true, "TRUE"},
		"lid_matrix_dump_file hops.dump":                {opensm.LIDMatrixFileSet, true, "(null)"},
		"m_key 0x17\nm_key_protection_level 2":          {opensm.MKeyGuards, false, "2"},
		"ignore_other_sm TRUE":                          {opensm.OthersIgnored, false, "TRUE"},
		"sharp_enabled 2":                               {opensm.SharpOn, false, "2"},
		"event_plugin_options socket=/elsewhere.sock":   {opensm.PluginSocketWrong, true, ""},
		"root_guid_file /elsewhere\nlfts_file /nowhere": {opensm.LFTsFileWrong, true, ""},
	} {
		s, conf, lmc := Settings("opensm.conf", []byte(site+line+"\n"), f, base)
		found := false
		for _, x := range s.Findings {
			if x.Code == want.code {
				found = x.Mended == want.mended && strings.Contains(x.What(), map[bool]string{true: "forsctl setup changes it", false: "opensm.conf"}[x.Mended]) || x.Code == opensm.SharpOn
			}
		}
		key, _, _ := strings.Cut(line[strings.LastIndex(line, "\n")+1:], " ")
		if !found || conf[key] != want.then || lmc != 2 {
			t.Errorf("%q: %+v, and OpenSM gets %q and LMC %d", line, s.Findings, conf[key], lmc)
		}
	}
	if s, _, _ := Settings("opensm.conf", []byte(site+"honor_guid2lid_file yes\n"), f, base); len(s.Misread) != 1 || !strings.Contains(s.Misread[0], `"yes" means FALSE`) {
		t.Errorf("a value that OpenSM does not know: %q", s.Misread)
	}
}
