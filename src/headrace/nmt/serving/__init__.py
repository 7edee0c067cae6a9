"""The server: HTTP, requests and answers, who waits together, and the page to type into."""
