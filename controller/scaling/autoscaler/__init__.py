"""The autoscaler's rules: whether more or fewer queues would help a topic, and how many. It only ever proposes."""
