"""headrace: feeds training data to models."""
