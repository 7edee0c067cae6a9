"""What a run needs beside model and data: updates, several processes and GPUs, the way to stop, and its log."""
