package cli

import (
	"strings"
	"testing"
)

const key = `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIK1x5nQ0VplantedPLANTEDplantedPLANTEDplantedPLANT1
AoGCCqGSM49AwEHoUQDQgAEplantedPLANTEDplantedPLANTEDplant2
-----END EC PRIVATE KEY-----
`

// TestSecretsRemoved plants secrets in texts of every kind, and checks that all of them are removed, and
// nothing else.
func TestSecretsRemoved(t *testing.T) {
	c := newCleaner(key, "https://chat.example.org/hooks/PLANTED1?sig=PLANTED2&sv=1\n", "whsec_UExBTlRFRFBMQU5URUQ=\n", "", "x\n", "http://user:PLANTED3@h/PLANTED4")
	for text, want := range map[string]string{
		"posting to https://chat.example.org/hooks/PLANTED1?sig=PLANTED2&sv=1 failed": "posting to https://chat.example.org/[removed] failed",
		`{"url":"https://chat.example.org/hooks/PLANTED1?sig=PLANTED2\u0026sv=1"}`:    `{"url":"https://chat.example.org/[removed]"}`,
		"GET /hooks/PLANTED1?sig=PLANTED2&sv=1 HTTP/1.1":                              "GET /[removed] HTTP/1.1",
		"signed by UExBTlRFRFBMQU5URUQ= or whsec_UExBTlRFRFBMQU5URUQ=":                "signed by [removed] or [removed]",
		"whsec_PLANTEDOTHER+/=": "[removed]",
		key:                     "[removed]\n",
		"cut off: MHcCAQEEIK1x5nQ0VplantedPLANTEDplantedPLANTEDplantedPLANT1":                       "cut off: [removed]",
		"-----BEGIN PRIVATE KEY-----\nPLANTEDother\n":                                               "[removed]",
		`"key": "-----BEGIN RSA PRIVATE KEY-----\nPLANTED\n-----END RSA PRIVATE KEY-----\n", "a"`:   `"key": "[removed]\n", "a"`,
		"Authorization: Bearer PLANTED\r\nHost: x":                                                  "Authorization: [removed]\r\nHost: x",
		"curl -H 'authorization: bearer PLANTEDPLANTED'":                                            "curl -H 'authorization: [removed]",
		"Bearer PLANTED-PLANTED":                                                                    "Bearer [removed]",
		"forsd_PLANTEDabcdefghijklmnopqrstuvwxyz0123456789-_AB used":                                "forsd_[removed] used",
		"forsd_config_last_reload_success_timestamp_seconds 1.7e9":                                  "forsd_config_last_reload_success_timestamp_seconds 1.7e9",
		"peer: http://anna:PLANTED@node:7480/":                                                      "peer: http://[removed]@node:7480/",
		"https://hooks.slack.com/services/T0/B0/PLANTED, and":                                       "https://hooks.slack.com/[removed] and",
		"POST https://discord.com/api/webhooks/1/PLANTED":                                           "POST https://discord.com/api/webhooks/[removed]",
		"https://x.logic.azure.com:443/workflows/PLANTED?sig=PLANTED":                               "https://x.logic.azure.com/[removed]",
		"https://h/x?a=1&token=PLANTED&b=2":                                                         "https://h/x?a=1&token=[removed]&b=2",
		"webhook: {url: 'https://c.example.org/PLANTED', severity: info}\nrunbook_url: https://x/y": "webhook: {url: 'https://c.example.org/[removed]', severity: info}\nrunbook_url: https://x/y",
		"m_key 0x00PLANTED00\nm_key_lease_period 60\nsm_key 0xPLANTED\n":                            "m_key [removed]\nm_key_lease_period 60\nsm_key [removed]\n",
		"  password: PLANTED two words\n  secret_file: /etc/forsd/key\n":                            "  password: [removed]\n  secret_file: /etc/forsd/key\n",
		`{"password":"PLANTED","user":"anna"}`:                                                      `{"password":"[removed]","user":"anna"}`,
		"SMP with mkey: 0xPLANTED was refused":                                                      "SMP with mkey: [removed] was refused",
		"http://user:PLANTED3@h/PLANTED4":                                                           "http://h/[removed]",
		"Leaf007 port 31 – Spine010 port 8 went down: x":                                            "Leaf007 port 31 – Spine010 port 8 went down: x",
	} {
		got := string(c.Text([]byte(text)))
		if got != want {
			t.Errorf("%q\n gives %q\n want  %q", text, got, want)
		}
		if strings.Contains(got, "PLANT") || strings.Contains(got, "UExB") {
			t.Errorf("%q is left of %q", got, text)
		}
	}
}
