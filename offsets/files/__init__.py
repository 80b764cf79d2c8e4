"""Offset files of brokers and clients: text in, values out. Pure: who reads and writes the files is elsewhere."""
