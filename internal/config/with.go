package config

import (
	"reflect"
	"regexp"
)

// With returns the configuration with those values of another one that may change while
// forsd runs. live names the keys that differ and are among these, rest the other keys that
// differ: they count when forsd is restarted.
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

// merge sets the live fields of a struct to those of another, and tells of each field that
// differs. All of a group is live where the group is.
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

// same reports whether two values say the same in a file.
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
