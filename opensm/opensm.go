// Package opensm deals with the subnet manager next door: it watches the files
// that OpenSM writes, writes the table file that OpenSM reads, has it sweep,
// reads the tables back out of the switches, judges its settings, and follows
// its log for warnings. It plans nothing and decides nothing.
package opensm

// The defaults of OpenSM 3.3.23. Debian's unit opensm@.service, with the port GUID as its
// instance, makes it log to /var/log/opensm.GUID.log; LoadSettings finds that on the
// command line.
const (
	DefaultDumpDir  = "/var/log/"
	DefaultCacheDir = "/var/cache/opensm"
	DefaultConf     = "/etc/opensm/opensm.conf"
	DefaultLog      = "/var/log/opensm.log"
	DefaultUnit     = "opensm@*.service"
	SubnetFile      = "opensm-subnet.lst" // in the dump directory
	GUID2LIDFile    = "guid2lid"          // in the cache directory
)

// The routing engines whose tables are forsd's: FileEngine reads the table file, and
// PluginEngine asks forsd for tables. PluginName is the plugin's name in opensm.conf.
const (
	FileEngine   = "file"
	PluginEngine = "fors"
	PluginName   = "forsosm"
	PluginFile   = "libforsosm.so"
)

// DefaultSocket is the plugin's default for forsd's socket.
const DefaultSocket = "/run/forsd/opensm.sock"

// programName is what the kernel calls the process.
const programName = "opensm"
