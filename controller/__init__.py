"""The controller: who is master of a broker set, who is in sync, and who is notified."""
