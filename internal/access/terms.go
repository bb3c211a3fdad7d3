package access

import (
	"time"

	"github.com/forsd/forsd/internal/health"
)

// The codes of the warnings about expiry and about unusable files.
const (
	Incomplete     = "access-incomplete"
	ListenerDown   = "listener-down"
	ExpiresSoon    = "expires-soon"    // within 30 days
	ExpiresShortly = "expires-shortly" // within 7 days
	Expired        = "expired"
)

// Kinds returns the kinds of these warnings.
func Kinds() []health.Warnable {
	return []health.Warnable{
		{Code: Incomplete, Severity: health.Degraded, Title: "Clients lack rights that they should have"},
		{Code: ListenerDown, Severity: health.Degraded, Title: "The API does not listen everywhere"},
		{Code: ExpiresSoon, Severity: health.Info, Title: "Something expires within 30 days"},
		{Code: ExpiresShortly, Severity: health.Degraded, Title: "Something expires within 7 days"},
		{Code: Expired, Severity: health.Degraded, Title: "Something has expired"},
	}
}

// Term is the period of validity of a credential.
type Term struct {
	Kind        string // for the metric: certificate, client_ca, revoked, token or lease
	Name        string // in words
	From, Until time.Time
}

const (
	day  = 24 * time.Hour
	soon = 30 * day
	near = 7 * day
)

// Judge returns the warning for a term, or "" for both. Certificates issued for less than 30
// days, or 7, are meant to expire, and only warn once they have.
func (t Term) Judge(now time.Time) (code, text string) {
	left, life := t.Until.Sub(now), t.Until.Sub(t.From)
	at := t.Until.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case left <= 0:
		return Expired, t.Name + " has expired at " + at + ": renew or remove it"
	case left <= near && life > near:
		return ExpiresShortly, t.Name + " expires at " + at + ": renew or remove it"
	case left <= soon && life > soon:
		return ExpiresSoon, t.Name + " expires at " + at + ": renew or remove it"
	}
	return "", ""
}

// Judge returns the findings about all terms.
func Judge(terms []Term, now time.Time) (out []health.Finding) {
	for _, t := range terms {
		if code, text := t.Judge(now); code != "" {
			out = append(out, health.Finding{Code: code, Text: text})
		}
	}
	return out
}
