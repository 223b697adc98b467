module nriplugin.example/nri-adaptation

go 1.26

require github.com/containerd/nri v0.12.5
