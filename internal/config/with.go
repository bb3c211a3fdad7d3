package config

import (
	"reflect"
	"regexp"
)

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
