package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// offers are what is offered for the last word of a line, sorted, and whether the
// shell then looks for files or folders of its own. Some are enough to see that
// the script of a shell works.
var offers = []struct {
	line, want, shell string
	script            bool
}{
	{"holdfast st", "status stores", "", true},
	{"holdfast help e", "explain", "", false},
	{"holdfast completion ", "bash fish powershell zsh", "", false},
	{"holdfast run --no", "--no-wait", "", false},
	{"holdfast run --store ", "elasticsearch+https: elasticsearch: env: file: http: https: local mongodb+srv: mongodb: opensearch+https: opensearch: postgres: postgresql: redis: rediss: sqlite: unix:", "", false},
	{"holdfast status --store=sq", "sqlite:", "", false},
	{"holdfast status --store sq", "sqlite:", "", true},
	{"holdfast run ", "", "", true},
	{"holdfast run r ", "", "", false},
	{"holdfast run --ttl ", "", "", false},
	{"holdfast status ", "", "", false},
	{"holdfast run r -- ", "", "files", false},
	{"holdfast run r -- ./rep", "", "files", false},
	{"holdfast run r -- cat rep", "", "files", false},
	{"holdfast run r -- cat --st", "", "files", false},
}

// playground makes a folder with some files the working folder, and an
// environment in which a command can be found and no store be asked.
func playground(t *testing.T) {
	t.Helper()
	bin := t.TempDir()
	t.Chdir(t.TempDir())
	for _, err := range []error{
		os.WriteFile(filepath.Join(bin, "hfcommand"), []byte("#!/bin/sh\n"), 0o755),
		os.WriteFile(filepath.Join(bin, "hfcommand.txt"), nil, 0o600),
		os.Mkdir("folder", 0o755),
		os.WriteFile(filepath.Join("folder", "url"), nil, 0o600),
		os.WriteFile("reports", nil, 0o600),
	} {
		check(t, err)
	}
	for name, value := range map[string]string{
		"PATH": os.Getenv("PATH") + ":" + bin, "HOME": "/nonexistent", "TERM": "dumb",
		"HF_TEST_ONE": "1", "HF_TEST_TWO": "2", "HOLDFAST_STORE": "env:NOBODY_SETS_THIS", "HOLDFAST_TTL": "junk",
		"GORACE": "atexit_sleep_ms=0", // or each holdfast takes a second
	} {
		t.Setenv(name, value)
	}
}

// fitting are the words that shells offer of those that they got, one a line
// before any description: the ones that go on as the line ends.
func fitting(line, text string) string {
	last := line[strings.LastIndexByte(line, ' ')+1:]
	if _, value, ok := strings.Cut(last, "="); ok {
		last = value
	}
	var fit []string
	for got := range strings.Lines(text) {
		if word, _, _ := strings.Cut(strings.TrimRight(got, "\n"), "\t"); strings.HasPrefix(word, last) {
			fit = append(fit, word)
		}
	}
	slices.Sort(fit)
	return strings.Join(fit, " ")
}

// What this program says to the scripts of all shells.
func TestCompletions(t *testing.T) {
	playground(t)
	directives := map[string][]string{"": {"4", "6"}, "files": {"0"}}
	for _, o := range offers {
		words := strings.Split(strings.Replace(o.line, "holdfast", "__complete", 1), " ")
		out, err := exec.CommandContext(t.Context(), "holdfast", words...).Output()
		check(t, err)
		colon := bytes.LastIndexByte(out, ':')
		text, directive := string(out[:colon]), string(bytes.TrimSpace(out[colon+1:]))
		if got := fitting(o.line, text); got != o.want || !slices.Contains(directives[o.shell], directive) {
			t.Errorf("%q: got %s :%s, want %s :%s", o.line, got, directive, o.want, directives[o.shell])
		}
	}
}

// Each shell runs its script. What is not of the shell itself but of a package
// that may be missing, or works at a prompt only, is stood in for.
func TestCompletionScripts(t *testing.T) {
	playground(t)
	for shell, script := range map[string]string{
		"bash": `
			_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
			__ltrim_colon_completions() { :; }
			_filedir() { :; }
			source <(holdfast completion bash)
			IFS=' ' read -ra COMP_WORDS <<<"$1"; [[ $1 != *' ' ]] || COMP_WORDS+=('')
			COMP_WORDBREAKS=' ' COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
			__start_holdfast 2>/dev/null
			((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"`,
		"zsh": `compdef() { : }
			_arguments() { : }
			_describe() {
				local c
				for c in $completions; do c=${c//\\:/$'\1'}; c=${c%%:*}; print -r -- ${c//$'\1'/:}; done
			}
			source <(holdfast completion zsh)
			words=("${(@s: :)1}") CURRENT=$#words
			_holdfast
			true`,
		// It offers a second, with a dot, so as to add no space after the only one.
		"fish": `holdfast completion fish | source; complete -C $argv[1] | string match -v '*.'; true`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("it is not installed:", err)
			}
			for _, o := range offers {
				if !o.script {
					continue
				}
				args := map[string][]string{
					"bash": {"--norc", "-c", script, "bash", o.line},
					"zsh":  {"-f", "-c", script, "zsh", o.line},
					"fish": {"--no-config", "-c", script, o.line},
				}
				out, err := exec.CommandContext(t.Context(), path, args[shell]...).Output()
				if got := fitting(o.line, string(out)); err != nil || got != o.want {
					t.Errorf("%q: got %s, %v; want %s", o.line, got, err, o.want)
				}
			}
		})
	}
}
