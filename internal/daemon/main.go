package daemon

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/forsd/forsd/ilp"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/journal"
	"github.com/forsd/forsd/internal/manager"
	"github.com/forsd/forsd/internal/plans"
	"github.com/forsd/forsd/internal/rights"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/worker"
)

// The exit codes of forsd. An unusable configuration has its own code (EX_CONFIG of
// sysexits.h), so that the service manager does not restart forsd.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitConfig = 78
)

// Main runs forsd with the arguments until SIGINT or SIGTERM, and returns its exit code.
func Main(args []string, version string) int {
	worker.Main(worker.Tasks())
	flags := flag.NewFlagSet("forsd", flag.ContinueOnError)
	path := flags.String("config", config.DefaultPath, "configuration `file`; the default one may be absent")
	check := flags.Bool("check", false, "check the configuration and end")
	away := flags.Bool("withdraw", false, "put the table file aside for OpenSM to route by itself, and end; for when forsd has ended")
	show := flags.Bool("version", false, "print the version and end")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil || flags.NArg() > 0 {
		if err == nil {
			fmt.Fprintf(os.Stderr, "forsd: %q: no arguments are expected, see forsd --help; systemctl start forsd starts the service\n", flags.Arg(0))
		}
		return exitUsage
	}
	if *show {
		fmt.Println("forsd", version)
		return exitOK
	}
	cfg, found, err := loadConfig(*path)
	if err != nil {
		fmt.Fprintf(os.Stderr, "forsd: %v\n", err)
		return exitConfig
	}
	if *check {
		what := "the configuration is valid"
		if !found {
			what = "there is no such file, the defaults hold"
		}
		fmt.Printf("%s: %s\n", *path, what)
		broken, remarks := Problems(cfg)
		for _, p := range slices.Concat(broken, remarks) {
			fmt.Fprintf(os.Stderr, "%s: forsd would work, but: %s\n", *path, p)
		}
		return min(len(broken), exitFailed)
	}
	if *away {
		if cfg.OpenSM.Remote() || cfg.Watches() {
			return exitOK
		}
		if err := manager.Withdraw(context.Background(), &cfg.OpenSM, cfg.OpenSM.Finder()); err != nil {
			fmt.Fprintf(os.Stderr, "forsd: %v\n", rights.Explain(err))
			return exitFailed
		}
		return exitOK
	}
	plans.SetUp()
	level := zap.NewAtomicLevelAt(levels[cfg.Log.Level])
	log := newLogger(cfg.Log, level)
	defer func() { _ = log.Sync() }()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	reloads := make(chan os.Signal, 1)
	signal.Notify(reloads, syscall.SIGHUP) // otherwise the signal ends the process while it starts
	d, err := New(cfg, version, log, tellSystemd)
	if err == nil {
		d.Configuration(config.File{Path: *path, Load: func() (*config.Config, error) {
			next, _, err := loadConfig(*path)
			return next, err
		}, Level: func(l config.LogLevel) { level.SetLevel(levels[l]) }})
		go d.reloadOn(ctx, reloads)
		err = d.Run(ctx)
	}
	tellSystemd(systemd.SdNotifyStopping)
	if err != nil {
		log.Error("forsd ends", zap.Error(rights.Explain(err)))
		return exitFailed
	}
	return exitOK
}

// loadConfig reads the configuration. Only the default file may be missing; found is
// false then.
func loadConfig(path string) (cfg *config.Config, found bool, err error) {
	cfg, err = config.Load(path)
	if path == config.DefaultPath && errors.Is(err, os.ErrNotExist) {
		return config.Default(), false, nil
	}
	if err == nil && cfg.Planning.Engine == config.EngineILP && !ilp.Available() {
		err = fmt.Errorf("%s: planning.engine: is ilp: %w", path, ilp.ErrNotBuiltIn)
	}
	return cfg, true, rights.Explain(err)
}

// tellSystemd passes a state to the service manager, if there is one.
func tellSystemd(state string) { _, _ = systemd.SdNotify(false, state) }

// levels maps the levels of the configuration to the logger's.
var levels = map[config.LogLevel]zapcore.Level{config.LevelDebug: zap.DebugLevel, config.LevelInfo: zap.InfoLevel,
	config.LevelWarn: zap.WarnLevel, config.LevelError: zap.ErrorLevel}

// newLogger returns a logger that writes to the journal under systemd, readable lines to
// a terminal, and JSON otherwise.
func newLogger(c config.Log, level zap.AtomicLevel) *zap.Logger {
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if c.Format == config.FormatConsole || c.Format == config.FormatAuto && terminal {
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	queue := journal.NewQueue(os.Stderr)
	core := zapcore.NewCore(encoder, queue, level)
	if c.Format == config.FormatJournal || c.Format == config.FormatAuto && journal.Connected() {
		core = journal.New(level, queue, core)
	}
	return zap.New(core)
}

// Problems lists the problems of a configuration that do not stop forsd but limit its
// API: unusable TLS files, and addresses that another program has. If forsd is running,
// addresses are not checked, because it has them itself. Remarks are certificates and
// lists that have expired or will soon, and addresses that the machine does not have yet.
func Problems(c *config.Config) (broken, remarks []string) {
	add := func(err error) { broken = append(broken, err.Error()) }
	if files := c.API.TLS.Files; files.Certificate != "" {
		for _, f := range access.Judge(access.LoadCertificates(files, add).Terms(), time.Now()) {
			remarks = append(remarks, f.Text)
		}
	}
	if running, err := net.Dial("unix", c.API.Socket); err == nil {
		_ = running.Close()
		return broken, remarks
	}
	for _, x := range [][2]string{{"api.listen", c.API.Listen}, {"api.tls.listen", c.API.TLS.Listen}} {
		if err := server.CanListen(cmp.Or(x[1], "127.0.0.1:0")); errors.Is(err, syscall.EADDRNOTAVAIL) {
			remarks = append(remarks, x[0]+": "+err.Error())
		} else if err != nil {
			broken = append(broken, x[0]+": "+err.Error())
		}
	}
	return broken, remarks
}
