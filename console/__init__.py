"""The page of the console in the browser: static files, which serving/http/console serves as they are."""
