package opensm

import (
	"errors"
	"fmt"
	"strings"
)

// option is an option on OpenSM's command line.
type option struct {
	long  string
	given string // as it was written, such as -A or --lmc
	value string // "TRUE" of an option that takes none
}

// flag is an option that OpenSM knows.
type flag struct {
	long  string
	short byte // 0 if none
	arg   bool // takes a value
}

// flags are all options of OpenSM 3.3.23 (opensm(8)): to know where an option
// ends takes them all.
var flags = []flag{
	{"version", 0, false}, {"config", 'F', true}, {"create-config", 'c', true}, {"debug", 'd', true},
	{"guid", 'g', true}, {"ignore_guids", 'i', true}, {"hop_weights_file", 'w', true}, {"dimn_ports_file", 'O', true},
	{"port_search_ordering_file", 'O', true}, {"lmc", 'l', true}, {"sweep", 's', true}, {"timeout", 't', true},
	{"verbose", 'v', false}, {"D", 'D', true}, {"log_file", 'f', true}, {"log_limit", 'L', true},
	{"erase_log_file", 'e', false}, {"Pconfig", 'P', true}, {"no_part_enforce", 'N', false}, {"part_enforce", 'Z', true},
	{"allow_both_pkeys", 'W', false}, {"qos", 'Q', false}, {"qos_policy_file", 'Y', true}, {"congestion_control", 0, false},
	{"cc_key", 0, true}, {"maxsmps", 'n', true}, {"console", 'q', true}, {"V", 'V', false}, {"help", 'h', false},
	{"once", 'o', false}, {"reassign_lids", 'r', false}, {"priority", 'p', true}, {"subnet_prefix", 0, true},
	{"smkey", 'k', true}, {"routing_engine", 'R', true}, {"ucast_cache", 'A', false}, {"connect_roots", 'z', false},
	{"lid_matrix_file", 'M', true}, {"lfts_file", 'U', true}, {"sadb_file", 'S', true}, {"root_guid_file", 'a', true},
	{"cn_guid_file", 'u', true}, {"io_guid_file", 'G', true}, {"port-shifting", 0, false}, {"scatter-ports", 0, true},
	{"max_reverse_hops", 'H', true}, {"ids_guid_file", 'm', true}, {"guid_routing_order_file", 'X', true},
	{"stay_on_fatal", 'y', false}, {"honor_guid2lid", 'x', false}, {"console-port", 'C', true}, {"daemon", 'B', false},
	{"pidfile", 0, true}, {"inactive", 'I', false}, {"perfmgr", 0, false}, {"perfmgr_sweep_time_s", 0, true},
	{"prefix_routes_file", 0, true}, {"consolidate_ipv6_snm_req", 0, false}, {"do_mesh_analysis", 0, false},
	{"lash_start_vl", 0, true}, {"sm_sl", 0, true}, {"retries", 0, true}, {"log_prefix", 0, true}, {"torus_config", 0, true},
	{"guid_routing_order_no_scatter", 0, false}, {"nue_max_num_vls", 0, true}, {"dump_files_dir", 0, true},
}

// parseArgs splits a command line as getopt_long_only does: long options with
// one dash or two, shortened as far as they stay unambiguous, and clusters of
// short ones. What it cannot understand it passes over, and says so.
func parseArgs(args []string) ([]option, error) {
	var found []option
	var problems []error
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			continue
		}
		var err error
		f, value, inline, ok := longFlag(arg)
		switch {
		case ok:
			found, args, err = addOption(found, f, arg, value, inline, args)
		case strings.HasPrefix(arg, "--"):
			err = fmt.Errorf("option %s is unknown", arg)
		default:
			found, args, err = takeShort(found, arg[1:], args)
		}
		problems = append(problems, err)
	}
	return found, errors.Join(problems...)
}

// longFlag matches an argument against the long names.
func longFlag(arg string) (f flag, value string, inline, ok bool) {
	name := strings.TrimPrefix(arg[1:], "-")
	name, value, inline = strings.Cut(name, "=")
	if name == "" || len(arg) == 2 && shortFlag(arg[1]) != nil {
		return flag{}, "", false, false
	}
	matches := 0
	for _, candidate := range flags {
		if candidate.long == name {
			return candidate, value, inline, true
		}
		if strings.HasPrefix(candidate.long, name) {
			f = candidate
			matches++
		}
	}
	return f, value, inline, matches == 1
}

func shortFlag(c byte) *flag {
	for i := range flags {
		if flags[i].short == c {
			return &flags[i]
		}
	}
	return nil
}

// addOption adds a long option, with the value after '=' or the next argument.
func addOption(found []option, f flag, given, value string, inline bool, args []string) ([]option, []string, error) {
	if f.arg && !inline {
		if len(args) == 0 {
			return found, nil, fmt.Errorf("option %s lacks its value", given)
		}
		value, args = args[0], args[1:]
	}
	if !f.arg {
		value = "TRUE"
	}
	given, _, _ = strings.Cut(given, "=")
	return append(found, option{f.long, given, value}), args, nil
}

// takeShort adds a cluster of short options, such as vvl5 or F FILE.
func takeShort(found []option, cluster string, args []string) ([]option, []string, error) {
	for i := range len(cluster) {
		given := "-" + cluster[i:i+1]
		f := shortFlag(cluster[i])
		if f == nil || f.short == 0 {
			return found, args, fmt.Errorf("option %q is unknown", given)
		}
		if !f.arg {
			found = append(found, option{f.long, given, "TRUE"})
			continue
		}
		value := cluster[i+1:]
		return addOption(found, *f, given, value, value != "", args)
	}
	return found, args, nil
}

// optionKeys are the options that set what a key of opensm.conf sets.
var optionKeys = map[string]string{
	"routing_engine": "routing_engine", "lfts_file": "lfts_file", "lid_matrix_file": "lid_matrix_dump_file",
	"dump_files_dir": "dump_files_dir", "log_file": "log_file", "ucast_cache": "use_ucast_cache",
	"honor_guid2lid": "honor_guid2lid_file", "reassign_lids": "reassign_lids", "inactive": "sm_inactive",
	"lmc": "lmc", "D": "log_flags", "sweep": "sweep_interval",
}

// apply lets an option of the command line have its effect.
func (s *Settings) apply(o option) error {
	from := origin{option: o.given}
	switch o.long {
	case "verbose":
		s.LogFlags = s.LogFlags<<1 | 1
		s.origins["log_flags"] = from
	case "V":
		s.LogFlags, s.LogFlush = 0xFF, true
		s.origins["log_flags"], s.origins["force_log_flush"] = from, from
	case "debug":
		if v, err := cNumber(o.value); err == nil && v == 2 {
			s.LogFlush = true
			s.origins["force_log_flush"] = from
		}
	}
	key, known := optionKeys[o.long]
	if !known {
		return nil
	}
	s.origins[key] = from
	if err := setters[key](s, o.value); err != nil {
		return fmt.Errorf("command line: option %s: %w", o.given, err)
	}
	return nil
}
