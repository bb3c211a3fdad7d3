package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/forsd/forsd/internal/health"
)

// The occasions of messages: a warning is raised or has a new text, a warning is cleared,
// and forsd has started.
const (
	Raised  = "raised"
	Over    = "over"
	Started = "started"
)

// Message is the data for a template, and the content of the template json.
type Message struct {
	ID       string          `json:"id"` // the same in each attempt
	At       time.Time       `json:"happened_at"`
	Host     string          `json:"host"` // that forsd runs on
	Fabric   string          `json:"fabric,omitempty"`
	State    string          `json:"state"` // raised, over or started
	Code     string          `json:"code,omitempty"`
	Severity health.Severity `json:"severity"`
	Title    string          `json:"title"`
	Text     string          `json:"text"`
	Since    time.Time       `json:"raised_at,omitzero"`    // start of the warning
	Advice   string          `json:"advice,omitempty"`      // remedy while it is in force
	Runbook  string          `json:"runbook_url,omitempty"` // the page about the code
}

// Templates are the formats of chat systems. Slack's also works for Mattermost and Rocket.Chat,
// and that of Teams is for its workflows.
var Templates = map[string]string{
	"json":    `{{json .}}`,
	"slack":   `{"text": {{json (plain .Line)}}}`,
	"discord": `{"content": {{json (plain .Line)}}, "allowed_mentions": {"parse": []}}`,
	"teams": `{"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": {
"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
"body": [{"type": "TextBlock", "wrap": true, "text": {{json (plain .Line)}}}]}}]}`,
}

// mostText is the number of characters that chat systems accept.
const mostText = 1500

// Line returns the message in one line.
func (m Message) Line() string {
	line := m.Title
	switch m.State {
	case Raised:
		line = fmt.Sprintf("[%s] %s: %s (%s)", strings.ToUpper(string(m.Severity)), m.Title, m.Text, m.Code)
		if advice, _, _ := strings.Cut(m.Advice, "\n"); advice != "" { // without commands
			line += " What to do: " + advice
		}
	case Over:
		line = fmt.Sprintf("[OVER] %s (%s)", m.Title, m.Code)
	}
	if m.Fabric != "" {
		line = m.Fabric + " " + line
	}
	line = m.Host + " " + line
	if utf8.RuneCountInString(line) > mostText {
		line = string([]rune(line)[:mostText]) + " …"
	}
	return line
}

// functions are the functions of templates. Texts contain node names: plain prevents these from
// mentioning users or forming links.
var functions = template.FuncMap{
	"json": func(v any) (string, error) {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(v)
		return strings.TrimSpace(out.String()), err
	},
	"plain": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "](", "] (").Replace,
}

// render executes a template. The result must be JSON.
func (m Message) render(name string) ([]byte, error) {
	text, known := Templates[name]
	if !known {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read webhook.template: %w", err)
		}
		text = string(raw)
	}
	t, err := template.New(filepath.Base(name)).Funcs(functions).Parse(text)
	var out bytes.Buffer
	if err == nil {
		err = t.Execute(&out, m)
	}
	if err != nil {
		return nil, fmt.Errorf("webhook.template: %w", err)
	}
	if !json.Valid(out.Bytes()) {
		return nil, fmt.Errorf("webhook.template: %s does not make JSON: write texts as {{json .Text}}", name)
	}
	return out.Bytes(), nil
}
