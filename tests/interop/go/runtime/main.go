// Command runtime is the runtime side of NRI as containerd and CRI-O link it
// (pkg/adaptation), driven by one JSON command per line on stdin. Every command
// gets exactly one JSON reply line on stdout; logs go to stderr.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// reply holds the fields of a successful answer besides "ok".
type reply map[string]any

func main() {
	if err := serve(newSession(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

// serve runs commands until the input ends. Commands are never run in parallel,
// so that replies keep the order of the commands.
func serve(s *session, in io.Reader, out io.Writer) error {
	defer s.stop()

	lines := bufio.NewReader(in)
	replies := json.NewEncoder(out)
	replies.SetEscapeHTML(false)

	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := replies.Encode(answer(s, line)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func answer(s *session, line []byte) reply {
	r, err := s.run(line)
	if err != nil {
		return reply{"ok": false, "error": err.Error()}
	}
	if r == nil {
		r = reply{}
	}
	r["ok"] = true
	return r
}
