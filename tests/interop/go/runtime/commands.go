package main

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

// command is the union of the fields of all operations.
type command struct {
	Op string `json:"op"`

	// start
	Socket                string `json:"socket"`
	PluginDir             string `json:"plugin_dir"`
	ConfigDir             string `json:"config_dir"`
	Name                  string `json:"name"`
	Version               string `json:"version"`
	RequestTimeoutMS      int64  `json:"request_timeout_ms"`
	RegistrationTimeoutMS int64  `json:"registration_timeout_ms"`
	DisableConnections    bool   `json:"disable_connections"`

	// start: directories of what is kept over a restart, and of a new cgroup's files
	Specs    string `json:"specs"`
	Cgroups  string `json:"cgroups"`
	Template string `json:"template"`

	// start, set_containers
	Containers     *int `json:"containers"`
	ContainerBytes int  `json:"container_bytes"`

	// wait_sync, bench, play
	Count int `json:"count"`

	// wait_sync, create
	TimeoutMS int64 `json:"timeout_ms"`

	// requests and events
	Event       string          `json:"event"`
	Pod         json.RawMessage `json:"pod"`
	Container   json.RawMessage `json:"container"`
	Resources   json.RawMessage `json:"resources"`
	RequestSize int             `json:"request_size"`

	// bench
	Warmup       int               `json:"warmup"`
	RequestBytes int               `json:"request_bytes"`
	Annotations  map[string]string `json:"annotations"`
	Differ       bool              `json:"differ"`
	Finish       bool              `json:"finish"`

	// play
	Part     string `json:"part"`
	First    int    `json:"first"`
	Parallel int    `json:"parallel"`

	// fail_updates
	Error string `json:"error"`
}

func (s *session) run(line []byte) (reply, error) {
	var c command
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, fmt.Errorf("bad command: %w", err)
	}

	switch c.Op {
	case "start":
		return nil, s.start(&c)
	case "shutdown":
		return nil, s.shutdown()
	case "set_containers":
		s.setContainers(&c)
		return nil, nil
	case "wait_sync":
		return s.waitSync(&c)
	case "create":
		return s.createContainer(&c)
	case "update":
		return s.updateContainer(&c)
	case "stop":
		return s.stopContainer(&c)
	case "event":
		return nil, s.event(&c)
	case "bench":
		return s.bench(&c)
	case "play":
		return s.play(&c)
	case "updates":
		return reply{"updates": s.takeUpdates()}, nil
	case "fail_updates":
		s.failUpdates(c.Error)
		return nil, nil
	case "validate_supported":
		return reply{"supported": validationSupported}, nil
	case "plugins":
		return s.countPlugins()
	}
	return nil, fmt.Errorf("unknown op %q", c.Op)
}

// pod returns the pod of the command, or a realistic one if it names none.
func (c *command) pod() (*api.PodSandbox, error) {
	if c.Pod == nil {
		return syntheticPod(defaultPodIndex), nil
	}
	pod := &api.PodSandbox{}
	return pod, fromJSON(c.Pod, pod)
}

// container returns the container of the command, or a realistic one of about
// the given size if it names none.
func (c *command) container(bytes int) (*api.Container, error) {
	if c.Container == nil {
		return syntheticContainer(defaultContainerIndex, defaultPodIndex, bytes), nil
	}
	container := &api.Container{}
	return container, fromJSON(c.Container, container)
}

// objects returns both the pod and the container of the command.
func (c *command) objects(containerBytes int) (*api.PodSandbox, *api.Container, error) {
	pod, err := c.pod()
	if err != nil {
		return nil, nil, fmt.Errorf("bad pod: %w", err)
	}
	container, err := c.container(containerBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("bad container: %w", err)
	}
	return pod, container, nil
}

// resources returns the resources of the command, nil if it names none.
func (c *command) resources() (*api.LinuxResources, error) {
	if c.Resources == nil {
		return nil, nil
	}
	resources := &api.LinuxResources{}
	if err := fromJSON(c.Resources, resources); err != nil {
		return nil, fmt.Errorf("bad resources: %w", err)
	}
	return resources, nil
}

// fromJSON drops fields this NRI version does not know, as a runtime of this
// version could not have sent them: one test input then serves all versions.
func fromJSON(raw json.RawMessage, m proto.Message) error {
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, m)
}

func toJSON(m proto.Message) json.RawMessage {
	raw, err := protojson.Marshal(m)
	if err != nil {
		// Only invalid UTF-8 gets here, which no decoded message can hold.
		panic(err)
	}
	return raw
}

// updatesToJSON never returns nil, so that the reply has [] instead of null.
func updatesToJSON(updates []*api.ContainerUpdate) []json.RawMessage {
	list := make([]json.RawMessage, 0, len(updates))
	for _, u := range updates {
		// The library appends a nil update if no plugin asked for any.
		if u != nil {
			list = append(list, toJSON(u))
		}
	}
	return list
}

func milliseconds(n int64) time.Duration {
	return time.Duration(n) * time.Millisecond
}
