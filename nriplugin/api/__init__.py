"""Generated messages: `hack/protoc` writes them from proto/. No hand edits in them."""

from nriplugin.api.pure_protobuf import load_when_used

load_when_used()
