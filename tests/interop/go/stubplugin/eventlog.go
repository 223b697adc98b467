package main

import (
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/containerd/nri/pkg/api"
)

// eventLog appends one JSON line per call. Lines are written at once and whole,
// so that a test can read the file while the plugin runs.
type eventLog struct {
	file *os.File
}

// eventLine has the resources that the container has, and those that the call wants to
// change, both in protojson and only where there are any.
type eventLine struct {
	Method    string          `json:"method"`
	Pod       string          `json:"pod"`
	Container string          `json:"container"`
	Resources json.RawMessage `json:"resources,omitempty"`
	Change    json.RawMessage `json:"change,omitempty"`
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
	l.recordChange(method, pod, container, nil)
}

// recordChange writes down a call that brings resources of its own.
func (l *eventLog) recordChange(method string, pod *api.PodSandbox, container *api.Container, change *api.LinuxResources) {
	if l == nil {
		return
	}
	if err := l.write(method, pod, container, change); err != nil {
		fmt.Fprintln(os.Stderr, "stubplugin: events log:", err)
	}
}

func (l *eventLog) write(method string, pod *api.PodSandbox, container *api.Container, change *api.LinuxResources) error {
	line := eventLine{Method: method, Pod: pod.GetId(), Container: container.GetId()}
	for _, part := range []struct {
		resources *api.LinuxResources
		to        *json.RawMessage
	}{{container.GetLinux().GetResources(), &line.Resources}, {change, &line.Change}} {
		if part.resources == nil {
			continue
		}
		text, err := protojson.Marshal(part.resources)
		if err != nil {
			return err
		}
		*part.to = text
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(text, '\n'))
	return err
}
