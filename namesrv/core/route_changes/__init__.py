"""Changes that programs watch over HTTP: numbered, kept for a while, read by each watcher at its own pace."""
