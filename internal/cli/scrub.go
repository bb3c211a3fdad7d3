package cli

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
)

// removed replaces a secret.
const removed = "[removed]"

// shortest is the minimum length of a text to remove as a secret: shorter ones also occur in
// other words.
const shortest = 6

// cleaner removes known secrets, and text that looks like a secret.
type cleaner struct{ known *strings.Replacer }

// newCleaner returns a cleaner for known secrets: texts of one or more lines, or addresses, whose host
// may be shown. Each line is a secret by itself, since logs break texts.
func newCleaner(secrets ...string) *cleaner {
	var pairs []string
	add := func(secret, instead string) {
		if len(secret) < shortest {
			return
		}
		pairs = append(pairs, secret, instead)
		if text, err := json.Marshal(secret); err == nil { // its form in JSON
			pairs = append(pairs, strings.Trim(string(text), `"`), instead)
		}
	}
	for _, s := range secrets {
		for line := range strings.Lines(strings.TrimSpace(s)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "-----") {
				continue // a line around a key
			}
			if u, err := url.Parse(line); err == nil && u.Host != "" {
				add(line, u.Scheme+"://"+u.Hostname()+"/"+removed)
				add(strings.TrimPrefix(u.RequestURI(), "/"), removed) // logs may contain only the path
				if u.User != nil {
					add(u.User.String(), removed)
				}
				continue
			}
			add(line, removed)
			add(strings.TrimPrefix(line, "whsec_"), removed)
		}
	}
	return &cleaner{strings.NewReplacer(pairs...)}
}

// The formats of secrets, and their replacements.
var forms = []struct {
	form    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`), removed},
	{regexp.MustCompile(`whsec_[A-Za-z0-9+/=_-]+`), removed},
	{regexp.MustCompile(`(?i)\b(authorization|proxy-authorization|cookie|set-cookie|x-api-key|x-auth-token)("?\s*[:=]\s*)[^\r\n]+`), "$1$2" + removed},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`), "$1 " + removed},
	{regexp.MustCompile(`://[^/\s@"']+@`), "://" + removed + "@"},
	{regexp.MustCompile(`(?i)https://(hooks\.slack\.com|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks|[a-z0-9.-]*webhook\.office\.com|[a-z0-9.-]*logic\.azure\.com|[a-z0-9.-]*powerplatform\.com)[^\s"'<>]*`), "https://$1/" + removed},
	{regexp.MustCompile(`(?i)(\burl["']?\s*:\s*["']?https?://[^/\s"',}]+)/[^\s"',}]*`), "$1/" + removed},
	{regexp.MustCompile(`(?i)([?&](?:token|key|sig|signature|secret|password|access_token)=)[^&\s"']+`), "${1}" + removed},
	// OpenSM's keys, and similar settings in any file. A path is not a secret.
	{regexp.MustCompile(`(?im)^(\s*#?\s*"?[\w.-]*(?:m_key|sm_key|sa_key|vs_key|cc_key|n2n_key|password|passwd|passphrase|secret|token|community)"?\s*[:= ]\s*)[^\s/][^\r\n]*$`), "${1}" + removed},
	{regexp.MustCompile(`(?i)\b((?:m_?key|sm_?key|sa_?key|password|passwd|passphrase|secret)["']?\s*[:=]\s*["']?)[^\s"',;/][^\s"',;]*`), "${1}" + removed},
}

// token matches forsd's tokens. Names of metrics have the same prefix, but no capital letters.
var token = regexp.MustCompile(`forsd_[A-Za-z0-9_-]{40,}`)

// Text returns a text without its secrets.
func (c *cleaner) Text(text []byte) []byte {
	out := []byte(c.known.Replace(string(text)))
	for _, f := range forms {
		out = f.form.ReplaceAll(out, []byte(f.instead))
	}
	return token.ReplaceAllFunc(out, func(found []byte) []byte {
		if bytes.Equal(found, bytes.ToLower(found)) {
			return found
		}
		return []byte("forsd_" + removed)
	})
}
