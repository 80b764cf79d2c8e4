"""Where broker sets outlive the process: one file, or etcd; `store.py` says what is expected of each."""
