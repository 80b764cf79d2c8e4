"""Samples the offsets of topics and consumer groups at intervals into the history, so that no server carries that load.

`rmq sample` is a process of its own: it queries NameServers and brokers as mqadmin does, and writes rows of
`offset_sample` for the analyses. It answers to the tables behind mqadmin's `topicStatus` and `consumerProgress`.
"""
