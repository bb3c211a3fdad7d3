// Package opensm deals with the subnet manager next door: it watches the files
// that OpenSM writes, writes the table file that OpenSM reads, has it sweep,
// reads the tables back out of the switches, judges its settings, and follows
// its log for warnings. It plans nothing and decides nothing.
package opensm

// Where OpenSM 3.3.23 keeps its files when nobody says otherwise, and where
// Debian's unit opensm@.service has it log; %s is the port GUID as systemd's
// instance name spells it, such as 0x0002c90300a1b2c3.
const (
	DefaultDumpDir       = "/var/log/"
	DefaultCacheDir      = "/var/cache/opensm"
	DefaultConf          = "/etc/opensm/opensm.conf"
	DefaultLog           = "/var/log/opensm.log"
	DefaultUnit          = "opensm@*.service"
	DebianLogFormat      = "/var/log/opensm.%s.log"
	SubnetFile           = "opensm-subnet.lst" // in the dump directory
	GUID2LIDFile         = "guid2lid"          // in the cache directory
	programName          = "opensm"
	defaultRoutingEngine = "minhop"
)
