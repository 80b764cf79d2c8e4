"""The console in the browser, at /ui/: who may use it, its files, and the relay to other servers."""
