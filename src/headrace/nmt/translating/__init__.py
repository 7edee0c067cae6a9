"""From a model to translations: searches, models together, alignments, and the work shared by processes."""
