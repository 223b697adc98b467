"""Generated messages: `hack/protoc` writes them from proto/. No hand edits."""
