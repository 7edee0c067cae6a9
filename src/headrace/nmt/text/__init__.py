"""Text files, and how text becomes words and pieces of words, and text again."""
