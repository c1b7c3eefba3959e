package cli

import (
	"strings"
)

// paragraphs sets a help text: it fills paragraphs and keeps the lines of indented
// ones.
func paragraphs(text string) string {
	blocks := strings.Split(strings.TrimRight(text, "\n"), "\n\n")
	for i, block := range blocks {
		if strings.HasPrefix(block, " ") {
			blocks[i] = literal(block)
		} else {
			blocks[i] = roffLines(block)
		}
	}
	return strings.Join(blocks, ".PP\n")
}

// literal sets lines as they are.
func literal(text string) string { return ".EX\n" + roffLines(text) + ".EE\n" }

func roffLines(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(roff(line) + "\n")
	}
	return b.String()
}

// escapes keeps roff from taking characters for commands or typography.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

func roff(text string) string {
	text = escapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
