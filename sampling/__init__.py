"""Samples at intervals how far topics and consumer groups are, into the history, so that no server carries that load.

`rmq-sampler` is a process of its own: it asks NameServers and brokers as mqadmin does, and writes rows of
`offset_sample` for the analyses. It answers to the tables behind mqadmin's `topicStatus` and `consumerProgress`.
"""
