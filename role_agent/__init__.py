"""Moves the address of a broker set to the host of its master: `rmq-role-agent`, one for each broker."""
