package config

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/health"
)

// The codes of the warnings about a changed file.
const (
	Refused = "configuration-refused"
	Waiting = "configuration-waits"
)

// Kinds returns the kinds of these warnings.
func Kinds() []health.Warnable {
	return []health.Warnable{
		{Code: Refused, Severity: health.Degraded, Title: "The changed configuration cannot be used"},
		{Code: Waiting, Severity: health.Info, Title: "Changed settings count when forsd is restarted"},
	}
}

// File is the source of the configuration.
type File struct {
	Path  string
	Load  func() (*Config, error)
	Level func(LogLevel) // sets the level of the log
}

// Settings are the settings in force, which a changed file replaces while forsd runs. The file is
// checked first, and an unusable one changes nothing. Of the settings that differ, those that may
// change are applied, and the others are named. Settings are safe for concurrent use.
type Settings struct {
	// File is set before forsd runs. Without it, settings cannot be reloaded.
	File File
	// Apply makes the daemon use the next settings. It calls take when it knows that they work.
	// Otherwise it returns an error, and nothing has changed.
	Apply func(ctx context.Context, next *Config, take func()) error

	now  atomic.Pointer[Config]
	last atomic.Pointer[outcome]
	one  sync.Mutex // serializes reloads
}

// outcome is the result of the last reload.
type outcome struct {
	good bool
	at   time.Time // of the last successful one
}

// NewSettings returns the settings in force from the start.
func NewSettings(cfg *Config, at time.Time) *Settings {
	s := &Settings{}
	s.now.Store(cfg)
	s.last.Store(&outcome{true, at})
	return s
}

// Now returns the configuration in force, which must not be changed.
func (s *Settings) Now() *Config { return s.now.Load() }

// Last reports whether the last reload succeeded, and the time of the last successful reload or
// of the start.
func (s *Settings) Last() (good bool, at time.Time) {
	o := s.last.Load()
	return o.good, o.at
}

// Reload reads the file and applies its settings; with dry it only returns the changes. The
// error has file and line.
func (s *Settings) Reload(ctx context.Context, dry bool, log *zap.Logger, warnings *health.Tracker) (*api.Reload, error) {
	s.one.Lock()
	defer s.one.Unlock()
	if s.File.Load == nil {
		return nil, api.Refused("this forsd was not started with a configuration file")
	}
	out, err := s.reload(ctx, dry)
	if dry || ctx.Err() != nil {
		return out, err
	}
	now := time.Now()
	if err != nil {
		s.last.Store(&outcome{false, s.last.Load().at})
		log.Error("the changed configuration is refused, and nothing changes", zap.String("file", s.File.Path), zap.String("text", err.Error()))
		warnings.Raise(Refused, strings.ReplaceAll(err.Error(), "\n", "; ")+"; the settings in force stay: correct the file, then run forsctl reload", now)
		return nil, err
	}
	s.last.Store(&outcome{true, now})
	warnings.Clear(Refused)
	if len(out.Restart) > 0 {
		warnings.Raise(Waiting, s.File.Path+" differs from what forsd was started with in "+strings.Join(out.Restart, ", ")+": run systemctl restart forsd when it suits, ranks keep their plan meanwhile", now)
	} else {
		warnings.Clear(Waiting)
	}
	log.Info("the configuration was reloaded", zap.String("file", s.File.Path), zap.Strings("changed", out.Changed), zap.Strings("restart", out.Restart))
	return out, nil
}

func (s *Settings) reload(ctx context.Context, dry bool) (*api.Reload, error) {
	next, err := s.File.Load()
	if _, wrong := errors.AsType[*Error](err); wrong {
		return nil, api.Refused("%v", err)
	} else if err != nil {
		return nil, api.Refused("%v: forsd must be able to read it", err)
	}
	merged, changed, rest := s.Now().With(next)
	out := &api.Reload{File: s.File.Path, Changed: append([]string{}, changed...), Restart: append([]string{}, rest...)}
	if dry || len(changed) == 0 {
		return out, nil
	}
	return out, s.Apply(ctx, merged, func() {
		s.now.Store(merged)
		s.File.Level(merged.Log.Level)
	})
}

// With returns the configuration with the live values of next, which may change while forsd
// runs. live lists the live keys that differ, and rest the other keys that differ: they take
// effect when forsd is restarted.
func (c *Config) With(next *Config) (merged *Config, live, rest []string) {
	out := *c
	merge(reflect.ValueOf(&out).Elem(), reflect.ValueOf(next).Elem(), "", false, func(key string, isLive bool) {
		if isLive {
			live = append(live, key)
		} else {
			rest = append(rest, key)
		}
	})
	return &out, live, rest
}

// merge sets the live fields of a struct to those of another, and calls differs for each field
// that differs. All fields of a live group are live.
func merge(dst, src reflect.Value, prefix string, all bool, differs func(key string, live bool)) {
	for _, f := range fields(dst.Type()) {
		a, b, key, live := dst.FieldByIndex(f.Index), src.FieldByIndex(f.Index), prefix+f.Tag.Get("yaml"), all || f.Tag.Get("live") != ""
		if isGroup(a.Type()) {
			merge(a, b, key+".", live, differs)
			continue
		}
		if same(a, b) {
			continue
		}
		if differs(key, live); live {
			a.Set(b)
		}
	}
}

// same reports whether two values have the same meaning in a file.
func same(a, b reflect.Value) bool {
	if x, is := a.Interface().(*regexp.Regexp); is {
		y, _ := b.Interface().(*regexp.Regexp)
		return x == y || x != nil && y != nil && x.String() == y.String()
	}
	if a.Kind() == reflect.Slice && a.Len() == 0 {
		return b.Len() == 0
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
