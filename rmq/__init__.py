"""`rmq`: one command for operators of RocketMQ, of these servers and of the Java ones."""
