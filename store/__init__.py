"""Where broker sets outlive the process: one file, or etcd; `store.py` defines what is expected of each."""
