package dashboard

// blockView is a text of several lines, of which a page shows the beginning if it is long.
type blockView struct {
	Text string
	Head string // its beginning, if it is long; otherwise ""
	Size int    // in bytes
}

const (
	maxBlock      = 1500 // bytes
	maxBlockLines = 18
)

func blockOf(text string, maxLines int) blockView {
	b := blockView{Text: text, Size: len(text)}
	head, lines := text, 0
	for i, char := range text {
		if char == '\n' {
			lines++
		}
		if lines == maxLines || i >= maxBlock {
			head = text[:i]
			break
		}
	}
	if len(head) < len(text) {
		b.Head = head
	}
	return b
}
