// Marks the module root only. The requirements of each NRI version are in
// mods/nri-X.Y.Z.mod, and hack/go-peers knows which build tags go with them.
module nriplugin.test/interop

go 1.24.3
