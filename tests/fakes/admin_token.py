"""The token of the HTTP sides that tests start."""

ADMIN_TOKEN = "dGhlIGFkbWluIHRva2Vu"
