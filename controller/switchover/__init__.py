"""Planned changes of the master: one switchover of a set, and the restart of all brokers of a set one by one."""
