package cmd

import (
	"encoding/json"
	"strings"

	"github.com/tasktable/tasktable/cmd/internal/options"
)

// ifDeadText is the value of --if-dead with the content of each @FILE in the place of its name. A repeated option
// arrives as one text with commas between its values, so the end of an object is where its JSON ends. Errors do not
// quote the text, because a payload may be secret.
func ifDeadText(given string) (string, error) {
	var tasks []string
	for rest := given; rest != ""; rest = strings.TrimPrefix(strings.TrimSpace(rest), ",") {
		if path, isFile := strings.CutPrefix(rest, "@"); isFile {
			path, rest, _ = strings.Cut(path, ",")
			body, err := contentOfFile("if-dead", path)
			if err != nil {
				return "", err
			}
			tasks = append(tasks, string(body))
			continue
		}
		var one json.RawMessage
		decoder := json.NewDecoder(strings.NewReader(rest))
		if err := decoder.Decode(&one); err != nil {
			return "", options.Usage("--if-dead: task %d must be a JSON object%s", len(tasks)+1, reason(err))
		}
		tasks, rest = append(tasks, string(one)), rest[decoder.InputOffset():]
	}
	return strings.Join(tasks, ","), nil
}
