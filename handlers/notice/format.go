package notice

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	webhookcontract "github.com/tasktable/tasktable/handlers/webhook/contract"
)

// Kind is a service that takes messages at a URL.
type Kind string

// The kinds.
const (
	KindWebhook Kind = "webhook" // JSON by Standard Webhooks, for programs
	KindSlack   Kind = "slack"   // an incoming webhook of Slack, or of what understands its format
	KindTeams   Kind = "teams"   // a workflow of Teams, "when a webhook request is received"
	KindDiscord Kind = "discord" // a webhook of a Discord channel
	KindNtfy    Kind = "ntfy"    // a topic of ntfy, for push to phones
)

// formats make the request of each kind. No part of a message that an application chose may act in it: no mention, no
// markup.
var formats = map[Kind]func(message) webhookcontract.HTTPRequest{
	KindWebhook: webhookRequest, KindSlack: slackRequest, KindTeams: teamsRequest, KindDiscord: discordRequest,
	KindNtfy: ntfyRequest,
}

// The limits of the services, in their units.
const (
	maxSlack   = 40000 // characters
	maxDiscord = 2000  // characters
	maxTeams   = 26000 // bytes of JSON; the limit is 28 KB, with the title and the frame
	maxNtfy    = 4096  // bytes; ntfy turns longer messages into an attachment
)

// webhookRequest is not shortened, because its parts have limits.
func webhookRequest(m message) webhookcontract.HTTPRequest {
	kind := "tasktable.notice"
	if m.Test {
		kind = "tasktable.notice.test"
	}
	data := map[string]any{
		"id": m.ID, "rule": m.Rule, "recipient": m.Recipient, "title": m.title(), "text": m.text(), "total": m.Total,
		"counts": append([]count{}, m.Counts...), "tasks": append([]cause{}, m.Listed...), // never null
	}
	if m.Environment != "" {
		data["environment"] = m.Environment
	}
	if !m.Test {
		data["from"], data["to"] = m.From.UTC().Format(time.RFC3339Nano), m.To.UTC().Format(time.RFC3339Nano)
	}
	return jsonRequest(map[string]any{"type": kind, "timestamp": m.To.UTC().Format(time.RFC3339Nano), "data": data})
}

func jsonRequest(body any) webhookcontract.HTTPRequest {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false) // it would make six bytes of one
	_ = encoder.Encode(body)     // maps of texts and numbers always encode
	return webhookcontract.HTTPRequest{Body: json.RawMessage(encoded.Bytes())}
}

// slackRequest escapes the three characters that begin and end Slack's markup, mentions such as <!channel> included.
func slackRequest(m message) webhookcontract.HTTPRequest {
	text := m.title() + "\n" + m.text()
	size := func(r rune) int { return len(slackEscapes.Replace(string(r))) - utf8.RuneLen(r) + 1 }
	return jsonRequest(map[string]any{
		"text": slackEscapes.Replace(shortened(text, maxSlack, size)), "mrkdwn": false, "unfurl_links": false,
		"unfurl_media": false,
	})
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// teamsRequest makes a card whose lines are TextRuns, because those know no markup. A mention would need an entity.
func teamsRequest(m message) webhookcontract.HTTPRequest {
	line := func(text string, bold bool) map[string]any {
		run := map[string]any{"type": "TextRun", "text": text}
		if bold {
			run["weight"] = "Bolder"
		}
		if m.isLink(text) {
			run["selectAction"] = map[string]any{"type": "Action.OpenUrl", "url": text}
		}
		return map[string]any{"type": "RichTextBlock", "inlines": []any{run}, "spacing": "None"}
	}
	body := []any{line(m.title(), true)}
	for text := range strings.SplitSeq(shortened(m.text(), maxTeams, teamsSize), "\n") {
		if text == "" {
			text = " " // a card with an empty run is refused
		}
		body = append(body, line(text, false))
	}
	return jsonRequest(map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive",
		"content": map[string]any{
			"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
			"body": body,
		},
	}}})
}

// teamsSize is how many bytes of JSON a rune takes. A line takes a frame of its own.
func teamsSize(r rune) int {
	switch r {
	case '\n':
		return 100
	case '"', '\\':
		return 2
	}
	return utf8.RuneLen(r)
}

// discordRequest escapes Discord's markup. It allows no mentions, because a backslash does not keep @everyone from
// being one.
func discordRequest(m message) webhookcontract.HTTPRequest {
	const suppressEmbeds = 1 << 2
	size := func(r rune) int {
		if strings.ContainsRune(discordMarkup, r) {
			return 2
		}
		return 1
	}
	var text strings.Builder
	for line := range strings.SplitAfterSeq(shortened(m.title()+"\n"+m.text(), maxDiscord, size), "\n") {
		for _, r := range line {
			if strings.ContainsRune(discordMarkup, r) && !m.isLink(line) {
				text.WriteByte('\\')
			}
			text.WriteRune(r)
		}
	}
	return jsonRequest(map[string]any{
		"content": text.String(), "allowed_mentions": map[string]any{"parse": []string{}}, "flags": suppressEmbeds,
	})
}

const discordMarkup = "\\*_~`|>#[]()<@-"

// ntfyRequest sends plain text.
func ntfyRequest(m message) webhookcontract.HTTPRequest {
	headers := map[string]string{"Content-Type": "text/plain; charset=utf-8", "Title": m.title()}
	if len(m.Listed) > 0 && m.Listed[0].URL != "" {
		headers["Click"] = m.Listed[0].URL
	}
	return webhookcontract.HTTPRequest{Headers: headers, Body: shortened(m.text(), maxNtfy, utf8.RuneLen)}
}
