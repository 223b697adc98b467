//go:build !nri08

package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/log"
)

// admissionLog finds out when a plugin has been added to those that get
// requests. That happens after the synchronization callback has returned, and
// the log line that follows is the only trace of it.
type admissionLog struct {
	log.Logger
}

var admissions atomic.Int64

func (l admissionLog) Infof(ctx context.Context, format string, args ...interface{}) {
	if format == "plugin %q connected" {
		admissions.Add(1)
	}
	l.Logger.Infof(ctx, format, args...)
}

func watchAdmissions() {
	log.Set(admissionLog{log.Get()})
}

// blockSync waits until the plugins of the finished synchronizations get
// requests. Blocking further synchronizations came with a later version.
func blockSync(_ *adaptation.Adaptation, finished int) (unblock func()) {
	for admissions.Load() < int64(finished) {
		time.Sleep(time.Millisecond)
	}
	return func() {}
}
