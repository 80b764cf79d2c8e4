"""The commands, a file or two for each noun; `table.py` names them all."""
