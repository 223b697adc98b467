// Command stubplugin is the reference plugin: what a Go author would write on
// pkg/stub. Without options it is also the yardstick for speed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stubplugin:", err)
		os.Exit(1)
	}
}

func run() error {
	var (
		name            = flag.String("name", "", "plugin name")
		idx             = flag.String("idx", "", "plugin index")
		socketPath      = flag.String("socket-path", "", "NRI socket, default: the inherited or the standard one")
		eventsLog       = flag.String("events-log", "", "file to append one JSON line per received call to")
		sleepMS         = flag.Int("sleep-ms", 0, "time to sleep in CreateContainer")
		replyBytes      = flag.Int("reply-bytes", 0, "approximate size of CreateContainer replies")
		updateAfterSync = flag.Bool("update-after-sync", false, "send one unsolicited update after Synchronize")
		syncUpdates     = flag.Bool("sync-updates", false, "update every container in Synchronize")
		allEvents       = flag.Bool("all-events", false, "subscribe to every event of this NRI version")
		onlyWatch       = flag.Bool("only-watch", false, "change nothing")
		setAtCreation   = flag.String("set-at-creation", "", "LinuxResources in JSON to adjust every container with, instead of converting")
		setAtUpdate     = flag.String("set-at-update", "", "LinuxResources in JSON to answer every update with, instead of converting")
	)
	flag.Parse()

	// The library tells about every step; only what goes wrong is of interest.
	logrus.SetLevel(logrus.ErrorLevel)

	p := newPlugin()
	p.sleep = time.Duration(*sleepMS) * time.Millisecond
	p.replyBytes = *replyBytes
	p.syncUpdates = *syncUpdates
	p.onlyWatch = *onlyWatch
	if *eventsLog != "" {
		log, err := openEventLog(*eventsLog)
		if err != nil {
			return err
		}
		p.log = log
	}

	var handlers any = p
	switch {
	case *allEvents:
		handlers = &observer{p}
	case *setAtCreation != "" || *setAtUpdate != "":
		set, err := newSetter(p.log, *setAtCreation, *setAtUpdate)
		if err != nil {
			return err
		}
		handlers = set
	}
	s, err := stub.New(handlers, options(*name, *idx, *socketPath)...)
	if err != nil {
		return err
	}
	if *updateAfterSync {
		p.afterSync = func(c *api.Container) { sendUpdate(s, c) }
	}

	if err := s.Start(context.Background()); err != nil {
		return err
	}
	s.Wait()
	return nil
}

// options leaves the identity of a launched plugin alone: the library takes it
// from the environment and rejects a second one.
func options(name, idx, socketPath string) []stub.Option {
	// Without this, old libraries exit with 0 as soon as the connection closes,
	// even if that is because the runtime refused the registration.
	opts := []stub.Option{stub.WithOnClose(func() {})}
	if os.Getenv(api.PluginNameEnvVar) == "" {
		opts = append(opts, stub.WithPluginName(orDefault(name, "stubplugin")))
	}
	if os.Getenv(api.PluginIdxEnvVar) == "" {
		opts = append(opts, stub.WithPluginIdx(orDefault(idx, "00")))
	}
	if socketPath != "" {
		opts = append(opts, stub.WithSocketPath(socketPath))
	}
	return opts
}

// sendUpdate is run outside of any handler, as it waits for the runtime.
func sendUpdate(s stub.Stub, c *api.Container) {
	if _, err := s.UpdateContainers([]*api.ContainerUpdate{weightUpdate(c)}); err != nil {
		fmt.Fprintln(os.Stderr, "stubplugin: unsolicited update:", err)
	}
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
