"""`rmq mqadmin`: the commands of mqadmin 5.5.0, with its options and its output."""
