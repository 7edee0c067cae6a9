"""What the model is made of: cells, attention, the Transformer's layers, words read letter by letter, the output."""
