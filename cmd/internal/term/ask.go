package term

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// Ask asks a question on the terminal and reports whether the answer is yes. It returns the context's error if that
// ends first.
func Ask(ctx context.Context, in *os.File, out io.Writer, question string) (yes bool, err error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // a read cannot be interrupted
		line, _ := bufio.NewReader(in).ReadString('\n')
		answers <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, ctx.Err()
	case answer := <-answers:
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes", nil
	}
}
