package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
)

// eventLog appends one JSON line per call. Lines are written at once and whole,
// so that a test can read the file while the plugin runs.
type eventLog struct {
	file *os.File
}

type eventLine struct {
	Method    string `json:"method"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
}

func openEventLog(path string) (*eventLog, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &eventLog{file}, nil
}

// record does nothing for a nil log, which keeps the default plugin fast.
func (l *eventLog) record(method string, pod *api.PodSandbox, container *api.Container) {
	if l == nil {
		return
	}
	line, err := json.Marshal(eventLine{method, pod.GetId(), container.GetId()})
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stubplugin: events log:", err)
	}
}
