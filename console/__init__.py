"""The page of the console in the browser: static files that serving/http/console serves as they are (docs/console.md)."""
