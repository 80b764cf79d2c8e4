"""The dialects of offset files, text in and values out. Pure: who reads and writes the files is elsewhere."""
