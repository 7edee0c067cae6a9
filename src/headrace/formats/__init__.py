"""Sources: bytes to columns. What says how many records there are, reads any of them, and knows what their data is.

A source here opens files, makes and checks their indexes, and gives columns of `headrace.batch` for record numbers. It
knows nothing of order (`headrace.plan`) or of what is done with the records (`headrace.dataset`). The modules are used
one by one; the package itself exports nothing.
"""
